"""Complaints told of a body in English: my back hurts, knee pain, rushed to the ER, threw up, had her appendix out.

No disease is named here: a part of the body and what ails it, a trip to a hospital, a pill. It counts where somebody
owns it (my, his, Emma's, the patient) and neither a lesson, a translation nor a machine is spoken of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memsvc.rules.redline.page import Finding, Lazy, Page, ration

_I = re.IGNORECASE | re.ASCII
_BODY = (
    r"(?:head|eyes?|ears?|nose|throat|tooth|teeth|wisdom tooth|jaw|tongue|gums?|neck|shoulders?|(?:lower |"
    r"upper )?back|spine|chest|heart|lungs?|ribs?|stomach|"
    r"belly|abdomen|liver|kidneys?|bladder|bowels?|hips?|knees?|legs?|calf|calves|ankles?|foot|feet|heels?|toes?|"
    r"arms?|elbows?|wrists?|hands?|fingers?|thumb|"
    r"skin|joints?|muscles?|hamstring|acl|meniscus|achilles|breasts?|prostate|ovar(?:y|ies)|uterus|thyroid|"
    r"appendix|tonsils|gall ?bladder|eyesight|vision|"
    r"hearing|memory|blood pressure|blood sugar|sugar levels?|cholesterol|iron levels?|liver enzymes|"
    r"kidney function|immune system)"
)
_OWNER = (
    r"(?:my|his|her|their|our|(?-i:[A-Z][a-z]+)'s|(?:son|daughter|wife|husband|mother|father|mom|mum|dad|"
    r"user|student|patient|baby|kid)'s)"
)
_ACHES = Lazy(
    rf"\b{_OWNER} (?:[a-z]+ ){{0,2}}?{_BODY}(?: (?:has|have|had|keeps?|is|are|was|were|been|still|always|really|"
    rf"often|constantly|gets?|got|just|started|"
    r"starts?|a bit|very|so|totally|suddenly|went|came back)){0,4} (?:hurt\w*|ach\w+|swollen|swelling|sore|stiff|"
    r"bleeding|bled|infected|inflamed|itch\w*|"
    r"numb|burn\w*|throbb\w*|killing|failing|declining|deteriorating|worse(?:ning)?|weak\w*|damaged|injured|broken|"
    r"fractured|torn|removed|replaced|bad|blurry|"
    r"high|low|elevated|abnormal|irregular|out of control|gave out|giving out|locked up|acting up|bothering|"
    r"acts up|clogged|ringing|enlarged|shot|messed up)\b|"
    rf"\b(?:hurt|broke|twisted|tore|pulled|strained|injured|sprained|fractured|dislocated|threw out|busted|burned|"
    rf"burnt) (?:{_OWNER}|an?|two|three|both|several) (?:[a-z]+ ){{0,2}}?{_BODY}\b|"
    rf"\b{_BODY}[ -]?(?:pains?|aches?|injur(?:y|ies)|surgery|replacement|infection|transplant|biopsy|problems?|"
    rf"trouble|spasms?|cramps?|failure|attack|operation|"
    rf"condition|disease|issues|damage)\b|\b(?:pain|lump|mass|tumou?r|cyst|rash|shadow|nodule|swelling|numbness|"
    rf"infection|blood clot|stiffness) (?:in|on|behind|under) "
    rf"(?:{_OWNER}|one|the|both) (?:[a-z]+ ){{0,2}}?{_BODY}\b|\bhad {_OWNER} {_BODY} (?:out|removed|taken out|"
    rf"replaced|scanned|x-rayed|operated on)\b",
    _I,
)
_ILL = Lazy(
    r"\b(?:shortness of breath|(?:threw|throwing|throws) up|vomit(?:ed|ing|s)?|nause(?:a|ous|ated)|can(?:'t|not|"
    r" barely| hardly) (?:sleep|breathe|walk|keep (?:any )?food down|hear|see)|"
    r"(?:had|having|has|have|got|with|running|caught|came down with|getting over|fighting) (?:an? )?(?:bad |"
    r"terrible |slight |mild |high |awful |nasty |"
    r"severe |stomach |low-grade |runny |stuffy |dry )*"
    r"(?:fever|cold|cough|temperature|chills|runny nose|nose|stomach bug|bug|cramps|hot flashes|night sweats|"
    r"dizzy spells|blackouts|flashbacks|side effects|symptoms)|"
    r"trouble sleeping|melatonin|on the (?:autism )?spectrum|pink eye|c/o|spik(?:ed|ing) a fever|passed out|"
    r"faint(?:ed|s)|collapsed|(?:kill|hurt|harm|cut(?:ting|s)?) (?:himself|herself|myself|themselves)|"
    r"end (?:his|her|my|their) (?:own )?life|"
    r"(?:want(?:s|ed)?|wish(?:es|ed)?) to (?:die|be dead)|doesn't want to live|overdos(?:ed?|ing)|period is late|"
    r"periods are|missed (?:my|her) period|"
    r"(?:weeks?|months?) pregnant|expecting (?:a baby|twins|our|their|her)|due in (?:january|february|march|april|"
    r"may|june|july|august|september|october|november|december)(?= with)|"
    r"trying (?:to conceive|for a baby)|morning sickness|postpartum|breast-?feeding|on the pill|stitches|(?:in|"
    r"wears?|wearing|got) a (?:cast|sling|neck brace|back brace)|"
    r"on crutches|bed ?rest|(?:has|have|with) (?:very )?(?:poor|low) (?:vision|hearing|eyesight)|uses? a (?:cane|"
    r"walker|cpap|catheter|feeding tube|hearing aid)|"
    r"sober|relapsed?|detox(?:ing)?|(?:hiv|covid|strep)[ -]positive|tested positive|lost (?:the|a|her|our) (?:baby|"
    r"pregnancy))\b",
    _I,
)
_TREATED = Lazy(
    r"\b(?:rushed|taken|went|admitted|sent|back|ended up|drove (?:me|him|her)|been|is|was|landed) (?:in|to|"
    r"at) (?:the )?(?:er|a&e|emergency room|hospital|icu|psych ward|urgent care|hospice|"
    r"intensive care|rehab)\b|\bspent \w+ (?:days|nights|weeks|months) in (?:the )?(?:hospital|icu|rehab|psych ward)|"
    r"\b(?:doctors?|dr\.? (?-i:[A-Z][a-z]+)|gp|dentist|physician|psychiatrist|cardiologist|oncologist|surgeon|"
    r"therapist|specialist) "
    r"(?:just |has |had |also |finally |recently )?(?:prescribed|put (?:me|him|her|them|us) on|ordered|found|"
    r"diagnosed|upped|increased|suspects?|confirmed|"
    r"thinks (?:it's|i|he|she)|says (?:it's|i have|he has|she has|i need)|told (?:me|him|her) (?:it's|it was|"
    r"to stop|to avoid|to rest))|"
    r"\b(?:on|off|takes?|taking|took|started|stopped|prescribed) (?:daily |a |an |the |some |his |her |my |heavy |"
    r"new |strong )*(?:\d+ ?(?:mg|mcg|ml|units)|meds|medication|antibiotics|"
    r"antidepressants|painkillers|antihistamines|sleeping pills|blood thinners|[a-z]+ inhibitors|beta blockers|"
    r"hormones|hrt|t(?:estosterone) shots|steroids|iron supplements)|"
    r"\b(?:my|his|her) (?:[a-z]+ )?(?:prescription|medication|meds|dosage|dose|mri|biopsy|scan|test|lab|blood|"
    r"x-ray|ultrasound|mammogram) (?:results?|was|were|is|came|showed|shows|for)(?= )|"
    r"\b(?:x-ray|mri|ct|scan|biopsy|ultrasound|blood ?work|blood test|mammogram|lab results?) (?:showed|shows|"
    r"revealed|found|came back)|"
    r"\b(?:on|taking|took|out on|needs?) (?:a )?(?:sick|medical|maternity|disability|mental health) (?:leave|day|"
    r"days)|\bcall(?:ed|ing) (?:in|out) sick|\bhome sick\b|"
    r"\b(?:stent|pacemaker|implant|catheter|pins|screws|tubes?|shunt) (?:put in|placed|removed|implanted|inserted)|"
    r"\b(?:wisdom )?(?:tooth|teeth) (?:pulled|out|extracted|removed)|\blost (?:his|her|my|a) (?:leg|arm|foot|hand|"
    r"finger|eye|"
    r"breast|kidney|toe)s?\b|\b(?:going through|undergo\w*|finished|start\w*) (?:chemo\w*|radiation|dialysis|ivf|"
    r"rehab|"
    r"therapy|hormone \w+)|\b(?:sent home with|came down with|getting over|hospitali[sz]ed (?:with|for)|treated for|"
    r"surgery for)\b|\b(?:has|had|have|with) (?-i:MS|CF|ALS|TB|RA)\b|"
    r"\b(?:flares? up|flared up|flare-up|in remission|metastasi[sz]ed|spread to (?:his|her|my) \w+)",
    _I,
)
_OWNED = Lazy(
    rf"\b(?:{_OWNER}|i|i'm|i've|me|he|he's|she|she's|we|they|him|users?|patients?|students?|son|daughter|wife|"
    rf"husband|mother|father|mom|mum|dad|brother|sister|"
    r"grand(?:ma|pa|mother|father)|boss|co-?worker|colleague|friend|roommate|neighbou?r|employee|baby|toddler|kid|"
    r"child|pt|uncle|aunt|cousin|nephew|niece|girlfriend|"
    r"boyfriend|partner|fianc\w+|(?-i:[A-Z][a-z]{2,}) (?=has|had|is|was|got|broke|sprained|threw|went|takes|took|"
    r"passed|fainted|called|tore|hurt|twisted|can't))\b",
    _I,
)
_NOBODYS = Lazy(
    r"\b(?:translate|how (?:do|to|does|can|should|would)|what (?:is|are|causes)|explain|describe|summari[sz]e|"
    r"write|essay|article|paper|lecture|course|textbook|chapter|"
    r"worksheet|quiz|lesson|teach\w*|research\w*|thesis|dataset|data|model|software|system|app|database|code\w*|"
    r"module|server|api|project|novel|story|movie|film|"
    r"character|book|poster|design|prompt|plants?|bug(?! and)|migration|cluster|network|market|economy|"
    r"hardware|pricing|product|users'|insurance|opening hours|"
    r"prevent\w*|awareness|symptoms of|portal|scheduling|engineer\w*|deploy\w*|build|pipeline|team|company|"
    r"metaphor\w*|lyrics|song|recommend\w*|template)\b",
    _I,
)
_NEVER = Lazy(
    r"\b(?:no|not|never|without|isn't|wasn't|don't|doesn't|didn't|if|in case|afraid of|"
    r"worried about)\b[^.,;]{0,16}\Z",
    _I,
)


def find(page: Page) -> Iterator[Finding]:
    """Yields complaints, trips to a hospital and treatments that somebody owns."""
    for pattern in (_ACHES, _ILL, _TREATED):
        for match, weigh in ration(pattern.finditer(page.text)):
            if not weigh or _owned(page, match):
                yield page.finding("health", match.start(), match.end())


def _owned(page: Page, match: re.Match[str]) -> bool:
    lead, rest = page.before(match.start()), page.after(match.end(), 40)
    if _NEVER.search(lead) or _NOBODYS.search(lead + match[0] + rest):
        return False
    return _OWNED.search(lead + match[0]) is not None or match[0][:7].lower().startswith(("doctor ", "dentist"))
