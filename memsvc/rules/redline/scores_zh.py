"""Chinese marks, ranks and grades of a person: 数学92分, 语文:85, 绩点3.68, 考了第39名, 不及格.

A number of points alone says nothing: an exam's specification is full of them. So a mark needs what ties it to
somebody (a subject or an exam right before it, 考了, 成绩是), and loses to what makes it a rule (每题, 满分, 以上).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memsvc.rules.redline.page import Finding, Lazy, Page, ration

SUBJECT = (
    r"(?:语文|数学|英语|外语|物理|化学|生物|历史|地理|政治|道德与法治|道法|品德|科学|体育|音乐|美术|"
    r"信息技术|理综|文综|小科|"
    r"[日法德俄韩]语|西班牙语|高数|线代|概率论|微积分|C语言|C\+\+|Java|Python|数据库|计组|计网|操作系统|"
    r"大物|大英|模电|数电|电路|"
    r"马原|毛概|思修|思政|近代史|习概|形势与政策|军训|论文|口语|听力|阅读理解?|写作|作文|听写|默写|书法|"
    r"(?:[数理化医法药哲文史力学]学|代数|几何|原理|导论|概论|结构|统计|会计|经济|程序设计|数据分析|网络|"
    r"实验课?|课程设计|[必选]修课?|(?<![节堂上下开停逃翘])课))"
)
EXAM = (
    r"(?:期末|期中|月考|周考|周测|单元测?试?|模拟考?试?|[一二三]模|联考|统考|会考|学考|高考|中考|考研|"
    r"小升初|测验|小测|随堂测?|考试|"
    r"补考|模考|考级|四六级|科[一二三四](?!目)|体测|统测|毕业设计|毕设|答辩|实训|实验|段考|质检|学业水平|"
    r"科目[一二三四]|教资|公考|"
    r"国考|省考|行测|申论|法考|司考|注会|软考|计算机[一二三四]级|[一二三四五六七八九十]级|结业考?|摸底考?|"
    r"入学考?|毕业考?|竞赛|笔试|面试|初试|复试|四级|六级|专四|专八|托福|雅思|托业|普通话|"
    r"CET ?-?[46]|IELTS|TOEFL|TOEIC|GRE|GMAT|SAT|ACT|PTE|PETS|N[1-5]|HSK)"
)
_LINK = (
    r"(?:[ \t:=\-—|的是为得考拿到了只才也就有共\"'「『*]|考试|成绩|分数|得分|总评|总分|均分|平均分?|单科|"
    r"卷面|大概|大约|差不多|这次|上次|居然|竟然|"
    r"仅仅?|刚好|最终|最后|一共|测试|笔试|上机){0,6}"
)
_HAN = "零〇一二三四五六七八九十百两"
_POINTS = Lazy(
    rf"(?:(?<![\d.\-])\d{{1,3}}(?:\.\d{{1,2}})?[多几]?|"
    rf"(?<![{_HAN}])[{_HAN}]{{1,6}}[几多]?(?:点[{_HAN}])?)[ ]?分(?!部|公司)"
)
_NO_MARK = Lazy(
    r"[ ]?(?:钟|之|制|题|值|线|段|类|析|别|布|配|享|组|班|层|期|手|开|支|辨|解|成|\d{1,2} ?秒|"
    r"[一二三四五六七八九十]+秒|熟|饱|糖|辣|"
    r"(?:左右)?[ ]?(?:及?以[上下内]|及其以上|或以上|起步|为?(?:及格|合格|优秀|良好|通过|满分|达标|止)|"
    r"才?算?(?:及格|合格|过关|通过|达标)|[到至~\-]|封顶|一[题个道]))"
)
_RULE = Lazy(
    r"每|满分(?!为?止)|[合及]格分|输入|输出|函数|分值|占|权重|及格线|合格线|分数线|录取|投档|要求|需要|"
    r"目标|至少|最低|不低于|超过|低于|高于|达到|大于|小于|"
    r"如果|假如|倘若|若|假设|例如|希望|想考|争取|打算|计划|力争|冲刺|扣|加(?=\d)|答[对错]|错一|对一|难度|"
    r"共计?[ ]?\Z|各[ ]?\Z|总计|合计"
)
_CLAUSE = Lazy(r"[,，、|()（）]")
_BY_SUBJECT = Lazy(rf"{SUBJECT}(?:这[次门]|上次|{EXAM}|[上下]学期|本学期){{0,2}}{_LINK}\Z")
_BY_EXAM = Lazy(rf"{EXAM}{_LINK}\Z")
_BY_TAKING = Lazy(r"(?:考[了到出得取过]了?|[只才又就就仅总共]考了?|考)[^,，、]{0,8}\Z")
_BY_GETTING = Lazy(r"(?:[得拿打判批评给]了|[得拿取获]到了?|[获取]得了?|得|评了|判了|批了)[^,，、]{0,8}\Z")
_BY_CHANGE = Lazy(rf"(?:{SUBJECT}|成绩|总分|分数)[^,，、]{{0,4}}[跌降升涨掉进退提][步高]?[到至]了?[^,，、]{{0,3}}\Z")
_BY_LABEL = Lazy(rf"(?:分别|成绩|得分|分数|均分|平均分|总评|总分|学分绩)(?:单上?)?{_LINK}\Z")
SURNAMES = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林罗高郑梁谢宋唐许韩邓冯曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈"
    "姚卢姜崔钟谭陆汪范金石廖"
    "贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤小老阿"
)
PERSON = Lazy(
    r"[我他她]|用户|姓名|同学|学生|学员|孩子|儿子|女儿|弟|妹|哥|姐|本人|自己|考生|小朋友|班里|"
    r"小[明红华刚丽芳军强美玲杰伟敏静亮东雨宇]|小[\u4e00-\u9fff](?=[ ]?\d)|"
    rf"(?:\A|[,，、:|\s])[{SURNAMES}][\u4e00-\u9fff]{{1,2}}(?=的|{SUBJECT}|{EXAM}|考|成绩|得|[这本上]|"
    r"总分|排|在|又|也|只|才|[期月高中]|说)"
)
_SCHOOL = Lazy(rf"考|成绩|测|作业|试卷|卷子|班|课|学期|年级|老师|{SUBJECT}|{EXAM}")
_LAST_CLAUSE = Lazy(rf"(?:考|成绩|{SUBJECT}|{EXAM})[^,，、\d]{{0,12}}[,，]\s*\Z")
_LISTED_BEFORE = Lazy(r"(?:\d{1,3}(?:\.\d)?[ ]?分?[ ]?[、,，和][ ]?){1,12}\Z")
_NAMED_ONLY = Lazy(
    rf"\s*(?:[我他她]|孩子|小[\u4e00-\u9fff]|[{SURNAMES}][\u4e00-\u9fff]{{1,2}}|"
    r"[\u4e00-\u9fff]同学)\s*(?:最[高低差好])?\s*"
)
_PARTS = ("笔试", "口试", "面试", "机试", "作文", "写作", "阅读", "听力", "口语", "听写", "默写", "论文", "书法")
_GAME = Lazy(
    r"球|比赛|电影|影片|游戏|豆瓣|餐|酒店|评分|评价|打分|好评|积分|联赛|淘汰赛|决赛|歌|剧|信用|跑分|性能|"
    r"模型|软件"
)
_GRADED = Lazy(rf"考|成绩|平均分|均分|总评|平时|学期|得分|分数|作业|课|{EXAM}|{SUBJECT}")
# Java 17 and Python 3 are versions, unless a word of marks came first.
_CODED = Lazy(r"Java|Python|C\+\+|C语言|数据库|操作系统|网络")
_GRADED_FIRST = Lazy("考|成绩|分数|期[末中]|总评|绩点")
_TOLD = Lazy("成绩|考|排名|名次|绩点")
_EXAMS = Lazy(EXAM)
_PAPER = Lazy(
    r"评分|标准|分值|全卷|小题|每题|满分|考试时间|时长|试卷|卷面|卷子满|本卷|出一[份套]|命题|题型|选择题|填空题|"
    r"判断题|"
    r"大题|规格|模板"
)

_UNIT = (
    r"(?![\d:％%年月日号题页章节班级课时小个道人本次门册点元篇届期岁名分天周种科楼室遍套万千百多]|"
    r"[./~\-]\d|[ ]?(?:分|天|题|页|个|道|人|元|小时|年|月|周|节|班|章|级|次|届|学分|课时|名))"
)
_MARK = r"(?:1[0-4]\d|150|[1-9]\d)(?:\.\d)?"
_COLON = Lazy(
    rf"{SUBJECT}(?:成绩|得分|分数|总评)?[ ]?[:=][ ]?(?:{_MARK}|\d|"
    rf"[四五六七八九]十[一二三四五六七八九]?)(?:[ ]?/[ ]?1[05]0{_UNIT}|{_UNIT})"
)
_LISTED = Lazy(rf"{SUBJECT}[ ]?(?:{_MARK}){_UNIT}(?=[ ,，、.。;；|)）!！]|\Z|{SUBJECT})")
_TAKEN = Lazy(
    rf"(?:{SUBJECT}(?:成绩|得分|分数)[ ]?|{SUBJECT}(?:这次|上次|居然|竟然|期[末中]){{0,2}}(?:只有|仅有|才|"
    rf"只|仅|就)(?:考了?|得了?|有)?|(?:成绩|得分|分数)[ 是为:]{{1,2}}|考[了到出]了?|[只才仅]考了?|"
    rf"[只才]得了?|成绩[是为:]|得分[是为:])[ ]?(?:个)?[ ]?(?:{_MARK}|[1-7]\d\d){_UNIT}"
)
_EXTERNAL = Lazy(
    r"(?:(?:四级|六级|CET ?-?[46])[^,，、\d]{0,6}[2-7]\d\d|(?:托福|TOEFL)[^,，、\d]{0,6}(?:1[01]\d|120|[3-9]\d)|"
    r"(?:雅思|IELTS)[^,，、\d]{0,6}[3-9](?:\.[05])?|(?:托业|TOEIC)[^,，、\d]{0,6}[1-9]\d[05]|(?:GRE|GMAT|"
    r"SAT)[^,，、\d]{0,6}[1-9]\d{2,3}|"
    rf"(?:高考|中考|考研|初试|总分)(?:考了|成绩|分数|总分|得了|[:是为]){{1,3}}[ ]?[1-7]\d\d|总分[ ](?!(?:100|120|"
    rf"150|200|300|660|710|750)(?!\d))[1-7]\d\d){_UNIT}"
)
_GPA = Lazy(
    r"(?:G\.?P\.?A\.?|绩点|学分绩|均绩)[^,，、\d一二三四五六七八九]{0,6}(?:[0-5]\.\d{1,2}|"
    r"[一二三四]点[零一二三四五六七八九]{1,2}|[2-4](?![\d.])|[6-9]\d(?:\.\d+)?)(?!\d)"
)
_RECKONED = Lazy("算法|换算|计算|公式|[分点]制")
_GPA_FIRST = Lazy(r"(?<![\d.])[0-5]\.\d{1,2}[ ]?的?(?:GPA|绩点|均绩)")
_ORDINAL = (
    rf"(?:第[ ]?[\d{_HAN}]{{1,4}}(?![ ]?[单章节课题册页回周天次讲集期部段篇卷届学个组层行列步条项种类版代轮"
    rf"号年月日小大\d])(?:名|位(?![^,，。 ]))?|前[\d{_HAN}]{{1,3}}(?:名|%)?|[\d{_HAN}]{{1,4}}名(?!同学|"
    rf"学生|老师|教师|员|单|人|称|字|次|为|叫|校)|倒数[第]?[\d{_HAN}]{{1,3}}|\d{{1,4}} ?/ ?\d{{2,4}}|垫底|"
    rf"并列第[\d{_HAN}]{{1,3}})"
)
_RANK = Lazy(
    r"(?:考[了到取进]?了?|综合?测评?|综合素质|平均分|[班级][级里上]|全[班校级]|年[级段]|专业|"
    rf"全[班校级系院市区县省]|系里|名次|成绩|位次|{SUBJECT}|{EXAM})"
    r"(?:[ \t:是为在了的得里中]|成绩|总分|综合|总?排名|排|位列|位次|名次|考[了到]?|居|进步到|退步到|到了?|"
    rf"掉到|升到|大概|全[班校级]|[班年]级){{0,5}}{_ORDINAL}"
)
_RANK_RULE = Lazy(r"名额|录取|奖励|表彰|颁发|评选|可获|目标|争取|希望|想考|取前|如果|若|球|跑|运动会|歌|舞|棋")
_LETTER = Lazy(
    rf"(?:{SUBJECT}|{EXAM}|成绩|等级|总评|作业|评级)(?:[ \t:=的是为得拿评了到个]|一直|总是?|每次|通常|"
    r"考[了到]?|成绩|等级|总评|"
    rf"评定){{1,5}}"
    rf"[ \"'“「『]{{0,2}}(?:[A-F][+\-]?(?![A-Za-z0-9+\-卷版组型类级班套股区座栋]|[ ]?[卷版组类])|(?:优秀|"
    r"良好|中等|[优良差])(?![\u4e00-\u9fff])|不?合格(?![\u4e00-\u9fff]))"
)
_LETTER_TIGHT = Lazy(rf"{SUBJECT}[A-F][+\-](?![A-Za-z0-9])")
_RANK_OF = Lazy(
    r"(?:排名|名次|位次)[是为: ]{0,2}第?\d{1,4} ?/ ?\d{2,4}|(?:[班年]级|全[校班市区县]|专业|"
    r"系里)[里内]?(?:成绩|综合|总分)?(?:排名|名次|位次)[是为: ]{0,2}第?\d{1,4}(?![\d.%])|"
    r"(?:考试?|成绩|排名|名次|这次)[^,，。]{0,4}(?:[退进]步|[上下][升降]|掉)了?[ ]?\d{1,3}[ ]?名"
)
_FRACTION = Lazy(
    rf"(?:{SUBJECT}|{EXAM}){_LINK}(?:(?:1[3-9]|[2-9]\d|1[0-4]\d)(?:\.\d)?|\d{{1,2}}\.\d) ?/ ?(?:[1-9]0|"
    rf"1[025]0){_UNIT}"
)
_RETAKE = Lazy(rf"(?:要|得|参加|去|又|{SUBJECT})补考|重修")
_LETTER_GOT = Lazy(
    r"(?:[得拿]了|[评判]为|得|是)"
    r"[个一 ]{0,2}[A-F][+\-]?(?![A-Za-z0-9+\-卷版组型类级班套股区座栋\u4e00-\u9fff])"
)
_TOTAL = Lazy(rf"总分[ 是为:]{{0,2}}[1-7]\d\d{_UNIT}")
_AVERAGE = Lazy(rf"(?:平均分|均分|总评|平时分?|期[末中]分?|总成绩|综合成绩|学分绩|加权)[ 是为:]{{1,2}}{_MARK}{_UNIT}")
_HAN_MARK = Lazy(
    rf"{SUBJECT}[ ]?(?:考了?|得了?)?(?:一百[零一二三四五六七八九十]{{1,4}}|"
    r"[四五六七八九]十[一二三四五六七八九]?)(?=[ ,，、。;；]|\Z)"
)
_LETTERS = Lazy(rf"{SUBJECT}[ :]?(?:[A-E][+\-]?|[优良中差])(?![A-Za-z0-9+\-\u4e00-\u9fff])")
_SPOKEN = Lazy(
    rf"(?:高考|中考|考研|初试)[ ]?[1-7]\d\d{_UNIT}|{EXAM}[^,，。\d]{{0,5}}[,，][ ]?(?:{_MARK}|[1-7]\d\d){_UNIT}|"
    r"(?:评[为定]|判为|[给得]了?|是)个?(?:不?[合及]格|优秀|良好|中等)(?![率线证的\u4e00-\u9fff])"
)
_MOVED = Lazy(r"(?:排名|名次|成绩)[^,，。]{0,4}从?第?[ ]?\d{1,4}[^,，。]{0,3}[掉升降退进跌滑]步?[到至]")
_ROSTER = Lazy(rf"(?<![\u4e00-\u9fff])[{SURNAMES}][\u4e00-\u9fff]{{1,2}}[ :]{{0,2}}{_MARK}{_UNIT}")
_FAILED = Lazy(
    r"不及格(?!率|人|者|的|就|将|须|需|要|可|则|会|时|线|情况|名单|标准)|没有?(?:考)?及格|未(?:能)?及格|"
    r"没考过|没考上|落榜|挂科了?(?!率|预警)|挂了[^,，。]{0,6}(?:科|门|课)|"
    rf"挂了[\u4e00-\u9fff]{{0,4}}{SUBJECT}|{EXAM}[^,，。]{{0,4}}(?:没有?|未能?)(?:过线|上线|通过|考过)|"
    rf"{SUBJECT}(?:又|也|都)?挂了|{EXAM}(?:又|也|还是)?(?:没过|未过|没通过|未通过|考砸|挂了)|考砸了?|"
    r"交了?白卷|留级(?!制)|被退学"
)
_FAILED_RULE = Lazy(
    r"如果|若|假如|以下|低于|小于|一旦|凡|否则|标准|规定|算|视为|记为|判为|防止|避免|担心|怕|if |else|<"
)
_FULL = Lazy(
    rf"(?:(?:考|得|拿)(?:了|到|过)(?:个|了)?|{SUBJECT}(?:考了|得了|拿了|是|都是)?)满分(?![\d:为是]|[ ]?\d|"
    r"试卷|作文)"
)
_STANDING = Lazy(
    r"成绩(?:一直|一向|总是|非常|十分|特别|比较|很|较|最|不太|不|都|还|算|挺|太|有点|有所|明显|在(?:班|"
    r"年级|全)[\u4e00-\u9fff]{0,4}){0,3}"
    r"(?:优异|优秀|拔尖|垫底|倒数|中等|中下|中上|下游|上游|偏下|偏上|不理想|下滑|下降|退步|"
    r"[好差](?!的方法|的办法)(?![\u4e00-\u9fff]{3}))"
)
_OWNER = Lazy(
    r"[我他她]的?|用户的?|儿子|女儿|孩子|弟弟|妹妹|同学|(?:\A|"
    rf"[,，])[{SURNAMES}][\u4e00-\u9fff]{{1,2}}的?(?:学习)?(?=成绩)"
)


def find(page: Page) -> Iterator[Finding]:
    """Yields marks, ranks and grades in Chinese words, with what ties them to a person inside the span."""
    yield from _points(page)
    yield from _without_unit(page)
    for match, weigh in ration(_RANK.finditer(page.text)):
        if not weigh or not _RANK_RULE.search(_around(page, match)):
            yield page.finding("score", match.start(), match.end())
    for match, weigh in ration(_FAILED.finditer(page.text)):
        if not weigh or not _FAILED_RULE.search(page.before(match.start(), 16)):
            yield page.finding("score", match.start(), match.end())
    for match, weigh in ration(_STANDING.finditer(page.text)):
        owner = _OWNER.search(page.before(match.start(), 10) + "成绩")
        if not weigh or (owner and not _RULE.search(page.before(match.start(), 16))):
            yield page.finding("score", match.start(), match.end())
    yield from _in_company(page)
    for pattern in (_RANK_OF, _MOVED, _FRACTION, _GPA, _GPA_FIRST, _LETTER, _LETTER_TIGHT, _FULL):
        for match, weigh in ration(pattern.finditer(page.text)):
            demanded = pattern is _GPA and (_RULE.search(match[0]) or _RECKONED.search(match[0]))
            if not weigh or not (demanded or _ruled(page, match.start(), match.end())):
                yield page.finding("score", match.start(), match.end())


def _around(page: Page, match: re.Match[str]) -> str:
    return page.before(match.start(), 14) + match[0] + page.after(match.end(), 8)


def _clause_before(page: Page, at: int) -> str:
    return _CLAUSE.split(page.before(at, 32))[-1]


def _ruled(page: Page, start: int, end: int) -> bool:
    """Says whether the clause makes it a rule, a wish or a specification instead of somebody's mark."""
    rest = page.after(end, 10)
    return bool(
        _RULE.search(_clause_before(page, start))
        or _NO_MARK.match(rest)
        or rest.startswith(("及", "以上", "的学生", "制"))
    )


def _points(page: Page) -> Iterator[Finding]:
    for match, weigh in ration(_POINTS.finditer(page.text)):
        if not weigh:
            yield page.finding("score", match.start(), match.end())
            continue
        lead = page.before(match.start(), 40)
        # 92、88、95 分: the tie stands before the first of them.
        listed = _LISTED_BEFORE.search(lead)
        lead = lead[: listed.start()] if listed else lead
        clause = _CLAUSE.split(lead)[-1]
        rest = page.after(match.end(), 12)
        if _NO_MARK.match(rest) or _RULE.search(clause) or _mere_adverb(match[0], rest, clause):
            continue
        tie = _tie(page, match, lead, clause)
        if tie >= 0:
            yield page.finding("score", match.start() - tie, match.end())


def _mere_adverb(points: str, rest: str, clause: str) -> bool:
    """十分, 万分 and 一分 are words more often than marks; after a colon or a verb they can be one, at an end "
    "only."""
    number = points[:-1].strip()
    if number[0] not in _HAN or len(number) > 1:
        return False
    return rest[:1].isalpha() or (not _BY_TAKING.search(clause) and not clause.endswith(("得了", ":")))


def _tie(page: Page, match: re.Match[str], lead: str, clause: str) -> int:
    """Returns how far before the mark that stands which ties it to somebody; -1 without any tie."""
    around = lead + match[0] + page.after(match.end(), 24)
    personal = PERSON.search(around) is not None
    for pattern in (_BY_TAKING, _BY_EXAM, _BY_CHANGE, _BY_SUBJECT, _BY_LABEL, _BY_GETTING):
        tie = pattern.search(clause)
        if tie is None:
            continue
        length = len(clause) - tie.start()
        if pattern is _BY_TAKING:
            return length
        if pattern is _BY_GETTING:
            ok = (personal or _SCHOOL.search(around) is not None) and not _GAME.search(around)
        elif pattern is _BY_LABEL:
            told = personal or _TOLD.search(around) is not None
            ok = (
                told
                and (personal or not _whole(match[0]))
                and not _GAME.search(around)
                and not (_PAPER.search(around) and not personal)
            )
        else:
            part = tie[0].startswith(_PARTS) or _whole(match[0]) or _PAPER.search(around)
            ok = personal or not part
        if ok:
            return length
    ours = personal and not _PAPER.search(around) and not _GAME.search(around)
    if ours and _GRADED.search(clause):
        return 0
    if ours and _GRADED.search(lead) and _NAMED_ONLY.fullmatch(clause):
        return 0
    if personal and not clause.strip() and _LAST_CLAUSE.search(lead) and not _RULE.search(lead):
        return 0
    return -1


def _whole(points: str) -> bool:
    """Says whether the number is what an exam is worth in all rather than what somebody reached."""
    return points[:-1].strip() in {"100", "120", "150", "200", "250", "300", "660", "710", "750", "一百", "一百五十"}


def _without_unit(page: Page) -> Iterator[Finding]:
    """Marks that carry no 分: behind a colon, in a list of subjects, after 考了 or the name of a known exam."""
    listed = list(_LISTED.finditer(page.text))
    for match, weigh in ration(listed):
        if _CODED.match(match[0]) and not _GRADED_FIRST.search(page.before(match.start(), 30)):
            continue
        personal = PERSON.search(page.before(match.start(), 30)) is not None
        if not weigh or ((personal or len(listed) > 1) and not _ruled(page, match.start(), match.end())):
            yield page.finding("score", match.start(), match.end())
    for pattern in (_COLON, _TAKEN, _EXTERNAL):
        for match, weigh in ration(pattern.finditer(page.text)):
            if not weigh or (
                not _ruled(page, match.start(), match.end())
                and not (_RULE.search(match[0]) or _GAME.search(_around(page, match)))
            ):
                yield page.finding("score", match.start(), match.end())


def _in_company(page: Page) -> Iterator[Finding]:
    """What is a mark only beside a word of school: 成绩出来了，我得了A; 模拟考我总分580; 成绩：张华 85，李丽 92."""
    for pattern in (_LETTER_GOT, _TOTAL, _AVERAGE, _HAN_MARK, _RETAKE, _SPOKEN, _ROSTER, _LETTERS):
        matches = list(pattern.finditer(page.text))
        for match, weigh in ration(matches):
            lead = page.before(match.start(), 40)
            school = _GRADED.search(lead + match[0]) is not None and not _PAPER.search(lead)
            told = pattern not in {_ROSTER, _LETTERS} and PERSON.search(lead) is not None
            if pattern in {_ROSTER, _LETTERS, _AVERAGE, _HAN_MARK}:
                told = told or len(matches) > 1 or (pattern is _HAN_MARK and _EXAMS.search(lead) is not None)
            if not weigh or (school and told and not _ruled(page, match.start(), match.end())):
                yield page.finding("score", match.start(), match.end())
