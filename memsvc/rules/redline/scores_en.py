"""English marks, ranks and grades of a person: scored 92 on the exam, Math: 85, an A- in physics, ranked 3rd.

Scores are told of games, films and models as well, and points of papers; so a number needs a school word or a person
beside it, and loses to what makes it a rule (each, maximum, at least).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from memsvc.rules.redline.page import Finding, Lazy, Page, ration

_I = re.IGNORECASE | re.ASCII
_SUBJECT = (
    r"(?:maths?|mathematics|english|physics|chemistry|biology|history|geography|science|calculus|"
    r"(?:linear )?algebra|geometry|trigonometry|"
    r"statistics|stats|literature|economics|spanish|french|german|chinese|mandarin|japanese|latin|"
    r"computer science|programming|"
    r"accounting|philosophy|psychology|sociology|civics|social studies|reading|writing|spelling|grammar|"
    r"vocabulary|organic chem(?:istry)?|"
    r"chem|bio|econ|data structures|algorithms|operating systems|discrete math|art|music|p\.?e\.?)"
)
_EXAM = (
    r"(?:exams?|examinations?|tests?|quiz(?:zes)?|mid-?terms?|finals?|homework|assignments?|essays?|"
    r"coursework|papers?|projects?|thesis|labs?|"
    r"class(?:es)?|courses?|subjects?|semester|term|report card|transcript|olympiad|a-levels?|gcses?|sat|"
    r"act|gre|gmat|lsat|mcat|toefl|ielts|cet-?[46]|ap)"
)
_GRADE_WORD = Lazy(r"/ ?\d|out of|\b(?:grade|mark|result)s?\b", re.IGNORECASE | re.ASCII)
_NUMBER = (
    r"(?:\d{1,3}(?:\.\d{1,2})?|(?:sixty|seventy|eighty|ninety|fifty|forty|thirty)(?:[ -](?:one|two|three|"
    r"four|five|six|seven|eight|nine))?)"
)
_OUT_OF = r"(?:[ ]?%|[ ]?/[ ]?\d{2,3}| percent| out of \d{2,3}| points?| marks?)"
_NOT_UNIT = (
    r"(?![\d:]|\.\d|[ -]?(?:questions?|minutes?|mins?|hours?|hrs?|seconds?|days?|weeks?|pages?|items?|"
    r"students?|people|chapters?|credits?|times|problems?|exercises|books?|lessons?|words|am|pm|am\b|th|"
    r"st|nd|rd|years?|sections?|parts?|goals?|kg|km)\b)"
)
_GOT = (
    r"(?:scored?|scores|scoring|got|gets|getting|received|receives|earned|earns|achieved|averag(?:es|ed|"
    r"ing)|obtained|made|managed|pulled off|came out with|only got|ended up with|finished with)"
)
_FILL = (
    r"(?: (?:an?|only|about|around|just|over|nearly|barely|exactly|a score of|a grade of|a mark of|"
    r"a total of|him|her|me|the)){0,3}"
)

_VERB = Lazy(rf"\b{_GOT}{_FILL} {_NUMBER}(?:{_OUT_OF}){{0,2}}{_NOT_UNIT}", _I)
_LABEL = Lazy(
    rf"\b(?:{_SUBJECT}|{_EXAM}|score|grade|mark|average|result|percentage)s?(?: (?:{_EXAM}|score|grade|"
    rf"mark|result|average)s?){{0,2}}"
    rf"(?: (?:in|on|for|at) (?:(?:the|his|her|my|their|our|last|this) )?(?:[a-z]+ ){{0,2}}(?:{_SUBJECT}|{_EXAM}))?"
    r"[ ]?(?:[:=]|(?: |\b)(?:is|was|were|of|at|came (?:back|out) (?:at|as|with)|dropped to|rose to|fell to|"
    r"went (?:up|down) to|-))[ ]?(?:only |about |around |an? |"
    rf"just ){{0,2}}{_NUMBER}(?:{_OUT_OF})?{_NOT_UNIT}",
    _I,
)
_LIST = Lazy(
    rf"\b{_SUBJECT}(?:[ ]?[:=\-][ ]?| )(?:100|\d\d(?:\.\d)?)(?:{_OUT_OF})?(?=[ ]?(?:[,;.|)\n]|and\b|"
    rf"\Z)){_NOT_UNIT}",
    _I,
)
_GPA = Lazy(
    r"\b(?:c?gpa|grade[ -]point average)\b(?:[ ]?(?:is|was|of|at|:|=|stands at|currently|now|only|about|"
    r"around|dropped to|fell to|rose to|went (?:up|down) to|\())*"
    r"[ ]?[0-5](?:\.\d{1,2})?(?![\d.]\d)",
    _I,
)
_GPA_FIRST = Lazy(
    r"(?<![\d.])[0-5]\.\d{1,2}[ ](?:(?:cumulative|unweighted|weighted|overall|college|"
    r"high school) ){0,2}c?gpa\b",
    _I,
)
_EXTERNAL = Lazy(
    r"\b(?:(?:p?sat|gmat|gre|lsat|mcat)(?: scores?)?(?: (?:is|was|of))?[ :]{1,2}(?:[1-9]\d{2}|1[0-6]\d\d)|"
    r"act(?: scores?)?(?: (?:is|was|of)|:) ?[123]\d|"
    r"toefl(?: ibt)?(?: scores?)?(?: (?:is|was|of))?[ :]{1,2}(?:1[01]\d|120|[3-9]\d)|"
    r"ielts(?: band)?(?: scores?)?(?: (?:is|was|of))?[ :]{1,2}[3-9](?:\.[05])?|"
    rf"cet-?[46](?: scores?)?(?: (?:is|was|of))?[ :]{{1,2}}[2-7]\d\d){_NOT_UNIT}",
    _I,
)
_ON_EXTERNAL = Lazy(
    r"\b(?:1[0-6]\d\d|[2-9]\d\d|[1-3]\d|1[01]\d|[4-9](?:\.5)?) (?:on|in|for) (?:(?:the|his|her|"
    r"my) )?(?:sat|act|gre|gmat|lsat|mcat|toefl|ielts|cet-?[46])\b",
    _I,
)
_LETTER = Lazy(
    rf"\b(?i:{_GOT}|gave (?:me|him|her|them)|given|has|have|had|with)(?i: (?:an?|only|straight|all|mostly|"
    rf"just|another|two|three|her|his|my|first)){{0,3}} [\"']?[A-F](?:[+\-](?![\w+])|"
    r"\b(?![+#'.]))[\"']?(?:'?s)?"
    r"(?i: grade)?(?i: (?:in|on|for|from|as) (?:(?:the|his|her|my|their|a|this|last|"
    rf"both) )?(?:[A-Za-z]+ ){{0,3}}?(?:{_SUBJECT}|{_EXAM}))\b",
    re.ASCII,
)
_LETTER_SIGN = Lazy(
    rf"\b(?i:{_GOT}|gave (?:me|him|her|them)|given)(?i: (?:an?|only|straight|"
    rf"another)){{0,2}} [A-F][+\-](?![\w+])",
    re.ASCII,
)
_GRADE_IS = Lazy(
    rf"\b(?i:(?:(?:{_SUBJECT}|{_EXAM}) )?(?:final )?(?:grade|mark|result)s?)(?i: (?:in|on|for) (?:(?:the|"
    rf"his|her|my) )?(?:[A-Za-z]+ ){{0,2}}?(?:{_SUBJECT}|{_EXAM}))?(?i:[ ]?[:=]| is|"
    r" was)(?i: an?)?[ ]?[A-F][+\-]?(?![\w+\-']|[ ]\d)"
    r"|\b(?i:(?:final|overall|course|semester|midterm) (?:grade|mark)) [A-F][+\-]?(?![\w+\-']|[ ]\d)"
    rf"|\b(?i:{_SUBJECT})[ ]?[:=\-][ ]?[A-F][+\-]?(?![\w+\-']|[ ]\d)",
    re.ASCII,
)
_STRAIGHT = Lazy(r"\bstraight[ -]a(?:'?s|[ -]student)\b|\b(?:an?|the) [abcdf][+\-]?[ -]student\b|\bdean's list\b", _I)
_FAILED = Lazy(
    r"\b(?:failed|flunked|failing|fails|flunking|(?:did not|didn't) pass|barely passed|bombed|"
    r"got a fail(?:ing grade)? (?:in|on))(?: (?:in|on|at|his|her|my|their|the|two|three|one|last|again|"
    rf"this|a|an|final|year|semester|[a-z]+)){{0,4}}?"
    rf" (?:{_SUBJECT}|exams?|quiz(?:zes)?|mid-?terms?|finals?|class(?:es)?|courses?|subjects?|sat|gre|"
    r"toefl|ielts|cet-?[46]|driving test|test)\b",
    _I,
)
_PERCENTILE = Lazy(r"\b(?:in )?the \d{1,2}(?:st|nd|rd|th) percentile\b", _I)
_AVERAGE = Lazy(
    r"\b(?:has|have|had|with|got|keeps?|kept|maintains?) (?:an?|"
    rf"the) \d{{2,3}}(?:\.\d)?[ ]?%? average(?: (?:in|for) (?:[a-z]+ )?(?:{_SUBJECT}|{_EXAM}))?\b",
    _I,
)
_FULL = Lazy(
    rf"\b{_GOT}(?: (?:a|an|the))? (?:zero|full marks|perfect scores?|top marks|the highest score)(?: (?:in|"
    rf"on|for|at) (?:(?:the|his|her|my) )?(?:[a-z]+ ){{0,2}}?(?:{_SUBJECT}|{_EXAM}))?",
    _I,
)
_LETTER_LIST = Lazy(rf"\b(?i:{_SUBJECT}) [A-F][+\-]?(?![\w+\-'#])", re.ASCII)
_RANK = Lazy(
    r"(?:'s|\b(?:rank(?:ed|s|ing)?|placed|came|finished|is|was|stands?|"
    r"number))(?: (?:in )?(?:the )?)?[ #]?(?:\d{1,3}(?:st|nd|rd|th)?(?: out)?|first|second|third|fourth|"
    r"fifth|last|top \d{1,2}(?: ?%| percent)?|bottom)(?: (?:out )?(?:of|place))?(?: of \d+)?(?: students)?"
    r" (?:in|of|at|among)(?: \d{1,4}(?: students)?(?: in)?)? (?:(?:the|his|her|my|their|our|entire|"
    r"whole) ){0,2}(?:class|grade|year|school|cohort|exam|form|classmates|major|department)\b"
    r"|\bclass rank(?:ing)?(?: is| was| of|:)? ?#?\d{1,3}|\btop \d{1,2}(?: ?%| percent) of (?:the|his|her|"
    r"my) (?:class|grade|year|cohort)",
    _I,
)
# A person, what they did or have, and a number or a grade on the way to a word of school.
_WHOSE = (
    r"(?:i|i'm|i've|he|he's|she|she's|they|we|you|me|him|her|us|my|his|their|our|users?|the user|students?|pupils?|"
    r"sons?|daughters?|kids?|child|"
    r"brother|sister|nephew|niece|cousin|friend|roommate|classmate|teacher|professor|(?-i:[A-Z][a-z]+)(?:'s\b|"
    r" (?=got|gets|has|had|scor|flunk|bomb|is|was|fail|pass|receiv|earn|rank|came|plac|finish|drop|graduat|aced|"
    r"averag|flunk|bomb)))"
)
_BARE = rf"(?<![\d.#$-])(?:1[0-6]\d0|\d{{1,3}}(?:\.\d{{1,2}})?){_NOT_UNIT}"
_TOLD = Lazy(
    rf"\b(?:{_SUBJECT}|{_EXAM}|quant|verbal|composite|percentile|average|grade|mark|score|percentage|band|overall)s?"
    r"(?: (?:exam|test|quiz|midterm|final|paper|grade|score|mark|result|section|speaking|writing|listening|reading|"
    r"quant|verbal|math|total|score sheet|one|two|i|ii|ab|"
    r"bc))?"
    r"(?: (?:only|just|finally|again|actually|really))?"
    r" (?:was|is|were|are|came (?:back|out|in)(?: (?:at|as|to))?|came to|went from|went (?:up|down) to|(?:rose|fell|"
    r"dropped|slipped|improved|climbed|jumped) "
    rf"(?:from|to)|sits at|stands at|ended (?:up )?(?:at|with)|turned out(?: to be)?|stayed at)(?: (?:an?|about|"
    rf"around|only|just|at|the)){{0,2}} {_BARE}",
    _I,
)
_SITTING = Lazy(
    r"\b(?:scored|scores|got|gets|gave (?:me|him|her|them|us)(?: an?)?|given|sitting at|"
    r"ended (?:up )?(?:the \w+ )?(?:with|at)|finished (?:the \w+ )?(?:with|on|at)|"
    r"graded|marked|averaging|averages|averaged|failed(?: \w+){0,4}? with|graduated with|"
    r"pulled|earned|(?:has|have|had|with|for)(?= an? )|(?:aced|scraped|passed)(?: [\w-]+){0,5}? with|"
    rf"below|above|under|over|from)(?: (?:an?|only|just|about|around|barely|straight|low|high|exactly|"
    rf"around)){{0,2}} {_BARE}(?: (?:out of|/) ?\d+)?",
    _I,
)
_LETTERS_TOLD = Lazy(
    r"\b(?i:got|gets|get|getting|has|have|had|received|earned|with|from|to|shows?|all|straight|mostly|two|three|"
    r"four|were|was|is|are|a|an|grade|mark|of|attainment|effort|ended up with|"
    r"except|into|another) (?:\"|')?(?:[A-F][+\-]?(?![\w+])(?:'?s\b)?|[A-F]s\b|[A-E]{2,5}\b(?=[ .,;]|\Z))",
    re.ASCII,
)
_LETTER_CONTEXT = Lazy(
    rf"\b(?:{_SUBJECT}|grades?|report card|transcript|semester|term|a-levels?|gcses?|exams?|midterms?|finals?|"
    rf"essays?|projects?|quiz(?:zes)?|assignments?|reports?|labs?|pupils?|honou?rs|course ?work|failing|passed|"
    rf"marks?|"
    r"linear algebra|organic chem(?:istry)?)\b",
    _I,
)
_PLACED = Lazy(
    r"\b(?:ranks?|ranked|placed|places|came|finished|is|was|'s)(?: (?:at|in))?(?: the)? (?:\d{1,3}(?:st|nd|rd|th)|"
    r"first|second|third|fourth|fifth|last|bottom|top)"
    r"(?: (?:out )?of| in| at| among|\b)",
    _I,
)
_COHORT = Lazy(r"\b(?:students?|class|year(?: group)?|cohort|grade|school|classmates|pupils|exam|form)\b", _I)
_NAMES_MARKED = Lazy(
    rf"(?:\b(?:(?-i:[A-Z][a-z]+)|student \d+)[ ]?[:=]? ?(?:100|\d\d)(?:\.\d)?%?{_NOT_UNIT}(?:[ ]?[,;]|[ ]?\Z|"
    rf"(?= on\b)| and)[ ]*){{2,}}",
    _I,
)
_MARKED = Lazy(r"\b(?:marks?|grades?|scores?|results?|exam|test|quiz|midterm|final|students?)\b", _I)
_DEGREE = Lazy(
    r"\b(?:got|gets|managed|received|earned|awarded|graduated with|passed with|with) (?:an? )?(?:first|2:[12]|"
    r"upper second|"
    r"lower second|third|distinction|merit|"
    r"summa cum laude|magna cum laude|cum laude)\b|\b(?:grades?|marks?) (?:have |has )?(?:slipped|dropped|fallen|"
    r"fell|tanked|plummeted|went down|improved|gone up)|"
    r"\b(?:repeat(?:ed|s|ing)?|held back|redo(?:ing)?|retak(?:e|es|ing)|resit(?:ting)?) (?:a |the |his |her |"
    r"my )?(?:\w+ )?(?:year|grade|class|course|exam|\w+ exam)|"
    r"\bbottom of (?:his|her|my|the|their) (?:class|year|grade)|\b(?:on academic probation|valedictorian|"
    r"flunked out|expelled)\b",
    _I,
)
_ANYBODY = Lazy(rf"\b{_WHOSE}\b", _I)
_MARKED_OR_SUBJECT = Lazy(
    rf"\b(?:{_SUBJECT}|{_EXAM}|grade|mark|average|mine|hers|percentile|quant|verbal|composite)\b", _I
)
_SITTING_AT = Lazy(
    rf"\b(?:{_SUBJECT}|exams?|tests?|quiz(?:zes)?|mid-?terms?|finals?|homework|assignments?|essays?|projects?|"
    rf"thesis|semester|term|subjects?|bar|graduated|college|degree|dictation|spelling|vocab\w*|pass(?:ed|ing)?|"
    rf"academic|"
    r"course|ap|gpa|average|sat|act|gre|gmat|lsat|mcat|toefl|ielts|cet-?[46])\b",
    _I,
)
_BAND = Lazy(r"[ ]?\d|[ ]?(?:eggs|level|license|movies?)\b")
_WISH = Lazy(
    r"\b(?:students (?:with|who|whose|below|under)|target\w*|aim\w*|hop\w+|want\w*|goal|wish\w*|plan\w*|need\w*|"
    r"should|would like|trying|if|prepar\w+|"
    r"at least|require\w*)\b",
    _I,
)
_PERSON = Lazy(
    r"\b(?:i|me|my|he|she|his|her|him|they|their|we|our|the user|user|students?|pupils?|son|daughter|"
    r"kids?|child|brother|sister|classmate|"
    r"nephew|niece|cousin|friend|name|roommate)\b(?!')|\bi'|(?-i:\b[A-Z][a-z]+'s\b)|"
    r"\b[A-Z][a-z]+(?:'s)? (?=scor|got|receiv|earn|achiev|averag|fail|flunk)",
    re.ASCII | re.IGNORECASE,
)
_CLAUSE = Lazy("[,;]")
_SCHOOL = Lazy(rf"\b(?:{_SUBJECT}|{_EXAM}|school|grades?|student|pupil|teacher)\b", _I)
_RULE = Lazy(
    r"\b(?:each|per|worth|maximum|max|minimum|min|at least|passing|pass mark|cut-?off|threshold|required?|"
    r"requires|requirement|needs?|need to|must|full marks|total(?:ing)?|"
    r"out of a possible|weigh(?:t|ts|ted|s)|counts?|if|suppose|assume|for example|e\.g\.|target|goals?|"
    r"aim(?:s|ing)?|hop(?:e|es|ing)|wants?(?: to)?|scale|rubric|allocate|range|"
    r"average score of the (?:model|class)|target(?:s|ing|ed)|set (?:the|a))\b",
    _I,
)
_ELSE = Lazy(
    r"\b(?:games?|match|goals?|season|league|team|touchdowns?|baskets?|movie|film|imdb|rotten|album|"
    r"restaurant|review|credit score|f1|bleu|rouge|accuracy|benchmark|model|"
    r"lighthouse|coverage|unit|integration|regression|smoke|e2e|ci|build|pipeline|stress|load|ab|a/b|"
    r"latency|server|api|npm|pytest|jest|cpu|gpu|golf|bowling|quarter)\b",
    _I,
)
_AFTER_RULE = Lazy(
    r"[ ]?(?:or (?:above|higher|more|better|below|less)|and above|each|per|in total|is (?:needed|required|"
    r"a pass)|to pass|required|minimum|maximum|scale|-point scale)\b",
    _I,
)


def find(page: Page) -> Iterator[Finding]:
    """Yields marks, ranks and grades in English words; a page without an ASCII letter has none."""
    text = page.text
    for pattern in (_GPA, _GPA_FIRST, _EXTERNAL, _ON_EXTERNAL, _LETTER, _LETTER_SIGN, _GRADE_IS, _STRAIGHT, _RANK):
        for match, weigh in ration(pattern.finditer(text)):
            if not weigh or not _ruled(page, match):
                yield page.finding("score", match.start(), match.end())
    for pattern in (_VERB, _LABEL, _FAILED):
        for match, weigh in ration(pattern.finditer(text)):
            if not weigh or (not _ruled(page, match) and _of_school(page, match)):
                yield page.finding("score", match.start(), match.end())
    for match, weigh in chain(
        ration(_FULL.finditer(text)), ration(_PERCENTILE.finditer(text)), ration(_AVERAGE.finditer(text))
    ):
        if not weigh or _of_school(page, match):
            yield page.finding("score", match.start(), match.end())
    letters = list(_LETTER_LIST.finditer(text))
    for match in letters:
        if (len(letters) > 1 or match[0][-1] in "+-") and not _ruled(page, match):
            yield page.finding("score", match.start(), match.end())
    listed = list(_LIST.finditer(text))
    for match, weigh in ration(listed):
        around = page.before(match.start(), 40)
        if not weigh or (not _ruled(page, match) and (len(listed) > 1 or ":" in match[0] or _PERSON.search(around))):
            yield page.finding("score", match.start(), match.end())


def find_told(page: Page) -> Iterator[Finding]:
    """Yields marks told in passing, where a person, a number or a grade, and a word of school share a sentence."""
    for pattern, context in (
        (_TOLD, _MARKED_OR_SUBJECT),
        (_SITTING, _SITTING_AT),
        (_LETTERS_TOLD, _LETTER_CONTEXT),
        (_PLACED, _COHORT),
        (_NAMES_MARKED, _MARKED),
        (_DEGREE, _ANYBODY),
    ):
        for match, weigh in ration(pattern.finditer(page.text)):
            if not weigh or _told_of_somebody(page, match, context):
                yield page.finding("score", match.start(), match.end())


def _told_of_somebody(page: Page, match: re.Match[str], context: Lazy) -> bool:
    lead, rest = page.before(match.start()), page.after(match.end(), 40)
    around = lead + match[0] + rest
    if _ELSE.search(around) or _RULE.search(lead) or _WISH.search(lead) or _AFTER_RULE.match(rest):
        return False
    if context is _LETTER_CONTEXT and _BAND.match(rest):
        return False
    return context.search(around) is not None and _ANYBODY.search(around) is not None


def _ruled(page: Page, match: re.Match[str]) -> bool:
    lead = page.before(match.start(), 40)
    clause = _CLAUSE.split(lead)[-1]
    return bool(_RULE.search(clause) or _RULE.search(match[0]) or _AFTER_RULE.match(page.after(match.end(), 24)))


def _of_school(page: Page, match: re.Match[str]) -> bool:
    """Says whether a person and a school stand around it, and neither a game nor a machine does."""
    lead, rest = page.before(match.start(), 48), page.after(match.end(), 40)
    around = f"{lead}{match[0]}{rest}"
    if _ELSE.search(around):
        return False
    if not _SCHOOL.search(around):
        return False
    # "failed the test" is said of programs, "midterm: 74/100" of nobody else.
    told = (
        match.re in {_VERB.compiled, _FULL.compiled, _PERCENTILE.compiled}
        or (match.re is _FAILED.compiled and not match[0].endswith("test"))
        or _GRADE_WORD.search(match[0]) is not None
    )
    return told or _PERSON.search(around) is not None
