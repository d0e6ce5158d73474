"""Health told of a person in English: diagnosed with …, has asthma, on sick leave because of …, takes insulin.

Diseases are known by the endings of Greek and Latin and by a few head words; the word alone is a topic, so it counts
where a verdict, a treatment or a person's having it stands beside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memsvc.rules.redline.page import Finding, Lazy, Page, ration

_I = re.IGNORECASE | re.ASCII
_DISEASE = Lazy(
    r"\b(?:[a-z]{3,}itis|(?!diagnosis|prognosis|hypnosis|osmosis|mitosis|meiosis|metamorphosis|symbiosis|"
    r"apotheosis|neurosis\b)[a-z]{3,}osis|"
    r"(?!diploma|aroma|axioma|oklahoma|tacoma|sonoma|paloma)[a-z]{3,}oma(?:s|ta)?|(?!academia|"
    r"bohemia)[a-z]{2,}(?:emia|aemia)|"
    r"(?!empathy|sympathy|apathy|telepathy|homeopathy|osteopathy)[a-z]{3,}pathy|"
    r"(?!nostalgia)[a-z]{3,}algia|[a-z]{3,}(?:plegia|paresis|rrhea|rrhoea|rrhage|penia|iasis|ectasia|"
    r"malacia|megaly|trophy(?<!atrophy)|stenosis|sclerosis|"
    r"ectopia|phasia|praxia|lexia|somnia|opia|uria|cele|dystonia|ataxia|spasms?|schisis|plasia|philia)|"
    r"(?:clastro|claustro|agora|arachno|acro|social )phobia|diseases?|disorders?|syndromes?|cancers?|"
    r"tumou?rs?|neoplasms?|carcinoma|leuka?emia|diabet(?:es|ic)|asthma(?:tic)?|autis(?:m|tic)|adhd|"
    r"(?-i:ADD)\b|ptsd|ocd\b|bpd\b|ibs\b|hiv|aids\b|copd|"
    r"als\b|covid(?:-19)?|influenza|flu\b|pneumonia|malaria|measles|mumps|rubella|cholera|plague|tetanus|"
    r"typhoid|smallpox|chicken ?pox|shingles|herpes|syphilis|gonorrh(?:ea|oea)|chlamydia|rabies|polio|"
    r"leprosy|scabies|ringworm|lice|worms|"
    r"fractures?|sprains?|dislocations?|concussions?|hernias?|ulcers?|abscess(?:es)?|cysts?|polyps?|"
    r"lesions?|warts?|corns|callosit(?:y|ies)|callus(?:es)?|eczema|acne|rash(?:es)?|hives|vitiligo|"
    r"strokes?(?! of)|heart attacks?|heart failure|(?:kidney|renal|liver|hepatic|respiratory|organ|"
    r"cardiac) failure|infarction|embolism|aneurysms?|thromb(?:us|osis)|hypertension|hypotension|angina|"
    r"arrhythmias?|palpitations|murmurs?|(?:high|low) blood (?:pressure|sugar)|high cholesterol|"
    r"epilep(?:sy|tic)|seizures?|migraines?|headaches?|vertigo|dizziness|fainting|palsy|paralys(?:is|ed)|"
    r"paralyzed|dementia|alzheimer'?s?|parkinson'?s?|huntington'?s?|crohn'?s?|hodgkin'?s?|lupus|gout|"
    r"anorexia|bulimia|schizophreni[ac]|bipolar|psychosis|neurosis|"
    r"depression|anxiety|panic attacks?|nightmares?|self-harm|suicid(?:al|e)|addiction|alcoholi(?:sm|cs?)|"
    r"addicts?|withdrawal|infertility|miscarriage|menopause|endometriosis|preeclampsia|"
    r"infections?|poisoning|sepsis|fever(?! for| pitch| dream)|deficienc(?:y|ies)|insufficiency|"
    r"intolerances?|allerg(?:y|ies)|anaphylaxis|incontinence|constipation|diarrh(?:ea|oea)|reflux|"
    r"gallstones?|kidney stones?|"
    r"obesity|malnutrition|scurvy|rickets|jaundice|cirrhosis|an(?:a)?emia|hemophilia|haemophilia|"
    r"cataracts?|glaucoma|blindness|deafness|hearing loss|vision loss|color ?blind(?:ness)?|tinnitus|"
    r"cerebral palsy|down'?s? syndrome|spina bifida|cleft (?:lip|palate)|clubfoot|malformations?|"
    r"deform(?:ity|ities)|agenesis|atresia|atrophy|prolapse|obstruction|perforation|h(?:a)?emorrhages?|"
    r"haematoma|hematoma|contusions?|lacerations?|burns|frostbite|gangrene|necrosis|edema|oedema|effusion|"
    r"torn (?:acl|meniscus|ligament|rotator cuff)|(?:slipped|herniated|bulging) dis[ck]s?|(?:heart|lung|"
    r"skin|thyroid|kidney|liver|eye|stomach|bladder|bowel|spine) (?:condition|problems?|trouble|defects?)|"
    r"strep(?: throat)?|(?:speech|hearing|visual|cognitive|sight|vision|mental|physical|learning|"
    r"developmental|intellectual) (?:impairments?|impediments?|disabilit(?:y|ies)|delays?)|(?:poor|bad|"
    r"failing|weak|blurry) (?:eyesight|vision|hearing|health|circulation)|myopia|astigmatism|strabismus|"
    r"[a-z]+thyroidism|albinism|dwarfism|botulism|rheumatism|(?:hyper|hypo)(?!link|text|visor|script|"
    r"parameter|thes|thet|crit|plane|graph|bole|loop)[a-z]{4,}|[a-z]{2,}(?:ectomy|plasty)|ivf|pcos|ckd\b|"
    r"utis?\b|st[di]s?\b|hpv|gerd|c-?ptsd|tbi\b|carpal tunnel|broken (?:arm|leg|wrist|ankle|foot|finger|"
    r"nose|collarbone|rib|hip|toe)s?|sore throat|back pain|chest pain|chronic (?:pain|fatigue)|"
    r"pain in (?:his|her|my)|insomnia|sleep apn(?:o)?ea|narcolepsy|dyslexi[ac]|stutter(?:ing)?|"
    r"mononucleosis|mono\b|lyme|celiac|coeliac|cystic fibrosis|fibroids?|"
    r"hydrocele|spermatocele|varicocele|varicose veins|h(?:a)?emorrhoids|goit(?:er|re)|bunions?|sciatica|"
    r"scoliosis|tics?\b|tourette'?s?)\b",
    _I,
)
_WHO = (
    r"(?:i|we|he|she|they|you|(?:the |our |my |a |his |her |their )?(?:user|patient|client|customer|"
    r"student|pupil|child|kid|employee|colleague|coworker|boss|teacher|roommate|neighbou?r|friend|"
    r"best friend|classmate|girlfriend|boyfriend|partner|"
    r"wife|husband|spouse|fianc[eé]e?|son|daughter|mom|mum|mother|dad|father|parents?|brother|sister|twin|"
    r"sibling|grand(?:ma|pa|mother|father|son|daughter|parents?)|aunt|uncle|cousin|nephew|niece|baby|"
    r"toddler|in-laws?|mother-in-law|father-in-law|man|woman|boy|girl))"
)
_PERSON = Lazy(
    rf"\b(?:{_WHO}|my|his|her|their|our|me|him|(?!(?:how|what|that|this|it|there|where|when|who|why|the|"
    r"which|here|everything|something|nothing|anything|everyone|covid)\b)(?-i:[A-Z][a-z]+)(?= (?:has|had|"
    r"is|was|suffers?|suffered|got|developed|caught|struggles|takes|lives|who)\b)|"
    r"(?-i:[A-Z][a-z]+'s))\b(?!-)",
    re.ASCII | re.IGNORECASE,
)
_NAMED = Lazy(
    r"\b[A-Z][a-z]+(?:'s)? (?:also |still |often |recently |now )?(?:has|had|is|was|suffers?|suffered|got|"
    r"developed|caught|struggles|takes|lives)\b",
    re.ASCII,
)
_HAS = Lazy(
    r"\b(?:has|have|had|having|'ve|'s|got|gets|get|getting|developed|developing|caught|contracted|"
    r"contracts|suffers?|suffering|suffered|struggl(?:es|ing|ed)|battl(?:es|ing|ed)|fights?|fighting|"
    r"surviv(?:ed|or|ing)|beat|recovering|recovered|"
    r"living with|lives? with|with|from|for|of|due to|because of|owing to|is|are|am|was|were|'m|'re|been|"
    r"feel(?:s|ing)?|felt|experienc(?:es|ed|ing)|tested|history|undergo(?:es|ing)?|underwent|my|his|her|"
    r"their|our|(?-i:[A-Z][a-z]+'s)|diagnosed)\b",
    re.ASCII | re.IGNORECASE,
)
_HAS_STRONG = Lazy(
    r"\b(?:has|have|had|having|got|developed|caught|contracted|suffers?|suffering|suffered|battl(?:es|ing|"
    r"ed)|recovering|living with|lives? with|experienc(?:es|ed|ing)|struggl(?:es|ing|ed))\b",
    _I,
)
_VERDICT = Lazy(
    r"\b(?:diagnosed (?:him |her |me |them )?(?:with|as(?: having)?)|diagnosis (?:is|was|of|:)|suffer(?:s|"
    r"ed|ing)? from(?! (?:bugs?|latency|lag|poor|low|slow|high|performance|the (?:same|fact)))|"
    r"(?:sick|medical|maternity|disability) leave(?: (?:because|due|for|after|since|until))?|off (?:sick|"
    r"work) (?:with|because)|hospitali[sz]ed|admitted to (?:the )?(?:hospital|icu|psych)|"
    r"in (?:the )?(?:hospital|icu)|called in sick|"
    r"tested positive|hiv[- ]positive|allergic to(?! (?:\w+ )?(?:meetings|jargon|buzzwords|boilerplate|"
    r"small talk|change|work|bureaucracy|semicolons|bullshit|hype|code|tests))|anaphylactic|lactose intolerant|"
    r"gluten intolerant|on (?:a ventilator|life support(?!\w)|oxygen|dialysis|chemo)|(?:sober|"
    r"clean) (?:for|since)|recovering (?:alcoholic|addict)|hospice care|(?:bad|sore|swollen|weak|"
    r"arthritic) (?:knees?|hips?|back|joints?|shoulders?|heart|lungs)|(?:vision|eyesight|hearing|memory|"
    r"heart|kidneys?|liver|health) (?:is|are|was|were|keeps?|has been) (?:failing|declining|deteriorating|"
    r"getting worse)|(?:under|over)active|in remission|"
    r"terminally ill|chronically ill|mentally ill|seriously ill|bedridden|wheelchair|legally blind|"
    r"hard of hearing|(?:is|am|are|was|'m|'s|been|became|born|went|going|partially|"
    r"profoundly) (?:\w+ )?(?:deaf|blind(?! to| spot))|deaf in|attempt(?:ed|s) suicide|suicide attempt|"
    r"wears? (?:a )?(?:hearing aids?|prosthe\w+|leg brace)|pacemaker|"
    r"(?:is|am|was|'m|'s|got|became|weeks|months|getting) pregnant(?! pause)|pregnan(?:cy|t(?! pause))|"
    r"miscarried|had (?:an abortion|a miscarriage|a stroke|a baby shower)|gave birth)",
    _I,
)
_MEDICINE = (
    r"(?:insulin|antidepressants?|antibiotics?|antipsychotics?|steroids?|chemo(?:therapy)?|radiotherapy|"
    r"radiation|dialysis|painkillers?|opioids?|statins?|beta[- ]blockers?|blood thinners?|sleeping pills?|"
    r"birth control|inhalers?|epipen|"
    r"lithium|prozac|zoloft|lexapro|xanax|adderall|ritalin|concerta|vyvanse|valium|ativan|wellbutrin|"
    r"ozempic|wegovy|humira|viagra|tylenol|advil|ibuprofen|aspirin|paracetamol|acetaminophen|metformin|"
    r"prednisone|warfarin|methadone|morphine|levothyroxine|"
    r"[a-z]{3,}(?:statin|pril|sartan|olol|mycin|cillin|azole|idine|oxetine|pram|traline|zepam|zolam|zine|"
    r"pine|triptan|gliptin|mab|vir|floxacin|cycline|dipine|parin|setron|formin|tadine|profen|codone|"
    r"phylline|semide|thiazide)|medications?|meds|medicines?|pills?|\d+ ?(?:mg|mcg|ml|units))"
)
_CARE = Lazy(
    r"\b(?:(?:take|takes|taking|took|taken|prescribed|on|uses?|using|needs?|injects?|started|stopped|"
    r"receiv(?:es|ed|ing)|undergo(?:es|ing)?|underwent|given|having|has|had|off)(?: (?:daily|weekly|a|an|"
    r"the|his|her|my|some|regular|low[- ]dose|high[- ]dose|heavy|oral|and|her own|[a-z]+ed|prescription|"
    r"psychiatric|heart|blood[- ]pressure|anti-anxiety|asthma|adhd|diabetes|pain|allergy|"
    rf"sleep)){{0,3}} {_MEDICINE}|"
    r"(?:had|has|having|needs?|undergo(?:es|ing)?|underwent|scheduled for|recover(?:ing|ed|s) from|after|"
    r"before|awaiting|getting)(?: (?:a|an|the|his|her|my|major|minor|emergency|open|"
    r"[a-z]+)){0,3} (?:surgery|operation|transplant|biopsy|mastectomy|[a-z]+ectomy|c-section|bypass|"
    r"root canal|chemo|mri|ct scan|colonoscopy)|"
    r"(?:in|started|attends?|going to|goes to|sees?|seeing|needs) (?:a |an |her |his |my |group |"
    r"cognitive |couples |weekly )*(?:therapy(?! dogs?)|therapist|psychiatrist|psychologist|"
    r"counsel(?:l)?ing|counsel(?:l)?or|rehab|oncologist|cardiologist|neurologist|dermatologist|urologist|"
    r"gyn(?:a)?ecologist|endocrinologist|physiotherap(?:y|ist)|physical therapy|aa meetings)|"
    r"prescribed\b|(?:knees?|hips?|appendix|gall ?bladder|tonsils|spleen|kidneys?|uterus|breasts?|"
    r"prostate|wisdom (?:tooth|teeth)|thyroid|leg|foot|arm|toe|finger|lung|liver) (?:was |were |is |got |"
    r"been |had )?(?:removed|replaced|amputated|replacement|removal|transplant(?:ed)?)|(?:my|his|her|"
    r"their) (?:chemo(?:therapy)?|dialysis|insulin|antidepressants?|medications?|meds|ivf|pregnancy|"
    r"surgery|psychiatrist|therapist|oncologist|inhaler|wheelchair|epipen)|blood (?:pressure|sugar|"
    r"glucose)(?: (?:is|was|of|improved|reading|level|rose|dropped|at|has been))?[^.,;]{0,12}?(?:\d|high|"
    r"low|elevated)|cholesterol (?:is|was) (?:high|\d)|(?:a1c|bmi|ldl|hdl|psa)(?: (?:is|was|of|"
    r"level))? ?:?\d|"
    r"mental(?:[- ]health)? (?:issues?|problems?|illness|breakdown|crisis|struggles?|condition)|"
    r"nervous breakdown|(?:physical|learning|intellectual|developmental) disabilit(?:y|ies)|"
    r"disabled(?= (?:person|student|child|veteran|since|and|\.|,))|suicid(?:e attempt|al)|self[- ]harm|"
    r"cut(?:s|ting)? (?:herself|himself)|health (?:condition|issues?|problems?)|medical (?:history|"
    r"condition|records?)|"
    r"(?:feel(?:s|ing)?|felt|been|is|am|are|'m|'s|so|very|clinically|severely|a bit|"
    r"quite) (?:\w+ )?(?:depressed|suicidal|bipolar|autistic|asthmatic|diabetic|epileptic|schizophrenic|"
    r"anorexic|bulimic|dyslexic|anemic|hypertensive|infertile|paralyzed|blind|immunocompromised)|"
    r"(?:sick|ill) (?:with|since|today|this week|for \w+ (?:days|weeks))|(?:broke|broken|fractured|"
    r"sprained|dislocated|twisted|tore|injured|dislocated) (?:his|her|my|their|an|a|the) (?:\w+ )?(?:arm|"
    r"leg|wrist|ankle|foot|finger|nose|collarbone|rib|hip|toe|knee|acl|shoulder|meniscus|hamstring|back|"
    r"elbow|spine|skull|neck|ligament)s?|lost (?:his|her) (?:sight|hearing|vision|baby))",
    _I,
)
_TOPIC = Lazy(
    r"\b(?:what (?:is|are|causes)|how (?:to|do|does|can|is|are)|explain|describe|summari[sz]e|write|essay|"
    r"article|paper|lecture|course|textbook|chapter|worksheet|quiz|exam|question|teach(?:es|ing)?|"
    r"study(?:ing)?|studies|research(?:es|ing|er)?|thesis|dataset|data|model|classifi(?:er|es)|"
    r"predict(?:s|ion|or)?|"
    r"detect(?:s|ion|or)?|software|system|app|database|code|codebase|architecture|schema|monolith|repo|module|"
    r"server|project|novel|story|movie|film|"
    r"character|book|documentary|news|called|named|fundraiser|charity|awareness|symptoms of|"
    r"treatments? (?:of|for)|prevention|prevent(?:s|ing)?|vaccine|epidemiology|doctor|nurse|physician|"
    r"surgeon|oncologist who|specialist|specializ|works? (?:in|at|as|on|for)|interested in|"
    r"curious about|learn(?:s|ing)?(?: about)?|read(?:s|ing)?|about|topic|example|translate|clinic|"
    r"hospital system|insurance|market|econom(?:y|ic)|generate|create|design|prompt|game|garden|plants?|"
    r"tomato|bug)\b",
    _I,
)
_QUOTED = Lazy(r"\b(?:translate|how (?:do|would|to) (?:you |i )?say|meaning of|the (?:sentence|phrase|word))\b", _I)
_NEVER = Lazy(
    r"\b(?:no|not|never|without|isn't|wasn't|doesn't have|don't have|didn't have|deny|denies|negative for|"
    r"free of|if|rule[sd]? out)\b[^.,;]{0,20}\Z",
    _I,
)
_PATIENTS = Lazy(
    r" (?:research|study|studies|model|dataset|detection|prediction|awareness|prevention|treatment|"
    r"symptoms|vaccine|department|clinic|center|centre|ward|charity|foundation|lecture|chapter|course|"
    r"unit|of (?:the )?(?:economy|market|system|army)|patients|specialist|screening|essay|paper)\b",
    _I,
)
_END = Lazy(
    r"[.,;:()\n]| (?:and|but|last|this|since|so|when|which|who|in|on|at|while|yesterday|today|two|three|"
    r"a few)\b"
)
_THINGS = Lazy(
    r"\b(?:bug|leak|outage|performance|engine|network|memory|disk|battery|bandwidth|bottleneck|issue with|"
    r"problem with|race condition|deadlock|misconfig\w*|config\w*|error|fault|hardware|server|cluster)\b",
    _I,
)


def find(page: Page) -> Iterator[Finding]:
    """Yields what is told of somebody's health in English; topics, research and machines are left."""
    text = page.text
    for match, weigh in ration(_VERDICT.finditer(text)):
        lead, rest = page.before(match.start(), 60), page.after(match.end(), 48)
        stop = _END.search(rest)
        thing = rest[: stop.start()] if stop else rest
        if not weigh or (not _THINGS.search(thing) and _somebodys(lead, match[0], rest)):
            yield page.finding("health", match.start(), match.end() + len(thing))
    for match, weigh in ration(_CARE.finditer(text)):
        if not weigh or _somebodys(page.before(match.start(), 60), match[0], page.after(match.end(), 24)):
            yield page.finding("health", match.start(), match.end())
    for match, weigh in ration(_DISEASE.finditer(text)):
        start = _had(page, match) if weigh else match.start()
        if start >= 0:
            yield page.finding("health", start, match.end())


def _somebodys(lead: str, told: str, rest: str) -> bool:
    """Says whether a verdict or a treatment is a person's own: a person before it, or no topic near."""
    if _NEVER.search(lead) or _QUOTED.search(lead):
        return False
    person = None
    for person in _PERSON.finditer(lead):  # noqa: B007 - the last one is wanted
        pass
    if person is not None or _NAMED.search(lead + told):
        return not _TOPIC.search(lead[person.end() :] if person else "")
    return not _TOPIC.search(lead + told + rest)


def _had(page: Page, match: re.Match[str]) -> int:
    """Returns where the having of a disease begins when a person has it, else -1."""
    lead, rest = page.before(match.start(), 60), page.after(match.end(), 30)
    if _NEVER.search(lead) or _QUOTED.search(lead) or _PATIENTS.match(rest):
        return -1
    person = None
    for person in _PERSON.finditer(lead):  # noqa: B007 - the last one is wanted
        pass
    if person is not None:
        gap = lead[person.start() :]
        having = None
        for having in _HAS.finditer(gap):  # noqa: B007 - the last one is wanted
            pass
        near = having is not None and len(gap) - having.end() <= 32
        if near and not _TOPIC.search(lead[person.end() :]):
            return match.start() - (len(lead) - person.end())
        return -1
    if _TOPIC.search(lead + rest):
        return -1
    having = _HAS_STRONG.search(lead)
    return match.start() - (len(lead) - having.start()) if having else -1
