"""Chinese marks that carry no 分, and ranks: 他理综 240 左右, 我高代 91、数分 84, 从班级 30 名进步到 12 名, 双百.

A bare number is anything, so it has to earn its name: a subject or an exam right before it with a person, a result or
its like beside it; or a person, a word of results and a word of school in one sentence. A unit behind it, a word of
specifications around it, or a match, a product or a city takes the name away again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memsvc.rules.redline.page import Finding, Lazy, Page, ration
from memsvc.rules.redline.scores_zh import EXAM, PERSON, SUBJECT, SURNAMES

_DIGITS = "零〇一二三四五六七八九"
_PAPER_OF = (
    r"(?:[语数英外物化生政史地]{2,6}|[两三四五六]科|[主单全各]科|总分|高代|数分|[主客]观题?|奥数|[初复]赛|综合素质|"
    r"教育知识|实务|"
    r"经济法|税法|审计|"
    r"财管|口算|计算|"
    r"专业课[一二]?|公共课|选择题?部分|附加题|小分|均分|平均分?|总评|平时|加权|测验|测试|小测|[一二三]模|展示|汇报|"
    r"出分|估分)"
)
_NEAR = Lazy(
    rf"(?:{SUBJECT}|{EXAM}|{_PAPER_OF})(?:[^\d,，。;:、]{{0,8}}[,，]?|"
    rf"[^\d,，。;:、]{{0,4}}[从由][^,，。]{{1,8}}?[到至][了]?)[ :]{{0,2}}\Z"
)
# Their names are followed by versions as often as by marks.
_CODED = Lazy(r"(?:C语言|C\+\+|Java|Python|数据库|操作系统|网络|结构|设计|统计|系统|语言|测试)[^\d,，。]{0,8}\Z")
_NUMBER = Lazy(
    r"(?<![\d.:/~\-第前A-Za-z_=<>$¥#&@])(?<!第 )(?<!\d )(?<!\+)\d{1,3}(?:\.\d{1,2})?(?![\d:~A-Za-z_%]|\+\d|\.\d|-\d|"
    r"/(?!\d{2,3}(?!\d)))|"
    rf"(?<![{_DIGITS}十百第])(?:[一二三四五六七八九]{{1,2}}十[一二三四五六七八九]?(?:点[{_DIGITS}]{{1,2}})?|"
    rf"一百[{_DIGITS}十]{{1,4}})(?![{_DIGITS}十百])|"
    r"个位数|双百|鸭蛋"
)
_UNIT = Lazy(
    r"[ ]?(?:余|多|来|几)?[ ]?(?:页|章|节|课|个|人|道|题|年|月|日|号[楼线]|点(?!几)|分[钟之]|秒|小时|元|块|万|千|"
    r"亿|岁|度|公里|米|斤|克|次|遍|"
    r"天|周|期|班|级|版|卷|套|本|册|篇|词|字|句|行|组|位|门|科|种|项|条|步|学[分时]|届|楼|倍|所|家|台|款|集|回|页|"
    r"张|份|"
    r"[GMKkT]B|ms|px|%|％|单词|单元(?![测考])|课时|专业|高校|大学|城市|学校|同学|学生|老师)"
)
_NAME = (
    r"[我他她俺咱]|用户|本人|自己|同学|同桌|学[生员霸渣妹弟姐]|孩子?|娃|宝|儿[子媳]|女儿|孙[子女]|闺女|学员|"
    r"[弟妹哥姐侄]|外甥|室友|舍友|"
    r"老[大二三]|考生|班长|"
    r"课代表|选手|小[\u4e00-\u9fff](?=[这那次上的在又也只才考得期月数语英物化总排连拿终平])|[一-龥]同学"
)
_ANYBODY = Lazy(_NAME)
# What papers are worth in all; behind 总分 such a number is nobody's.
_WHOLES = frozenset({"100", "120", "150", "200", "300"})
_RESULT = Lazy(
    r"考[了到得过出砸取]?|成绩|得[了分个到]|拿[了到]|分数|[均总平]分|平均|总评|期[末中]|月考|模考|[一二三]模|总分|"
    r"只有|才|"
    r"[提升降掉跌涨滑退][到至高]|进步|退步|出分|估分|实际|加起来|常年|徘徊|给了?[我他她你]|最[高低]|上次|这次|"
    r"第[一二三四]次|反馈"
)
_GAINED = Lazy(
    r"得[ ]?\Z|只有|崩了|评为|判为|考[了得到过砸]|成绩|得了|得[个分]|拿了|总评|均分|平均|估分|最[高低]|给了?[我他她]|"
    r"总[分共]|一共|"
    r"分别|两次|"
    r"做下来|以[ ]?\Z|扣了|"
    r"排名?|名次"
)
_SAT = Lazy(r"(?:这次|上次|本次|刚|昨天|今天)[^,，。]{0,6}(?:考|测|模|卷|级)")
_TAIL = Lazy(
    r"[ ]?(?:[多几]?分|[到至~\-][ ]?\d|考[进入上]|压线|过关|通过|\+|以上|左右|上下|出头|开外|多|几|不到|没过|未过|"
    r"没考过|不及格|及格|[,，。;、]|\Z)"
)
_PASS_MARK = Lazy(r"[ ]?分?(?:[及合]格(?!了)|为?优秀|才|就|即|算|为)")
_OF_SCHOOL = Lazy(
    rf"考|卷|四六级|模拟|阅读|班[级里上]?(?![车次长])|年级|学期|老师|成绩|分数|测验|作业|绩点|{SUBJECT}|{EXAM}"
)
_SPEC = Lazy(
    r"试题|控制在|每[题空道小]|[^了]满分[是为 ]{0,2}\d|分值|试卷|全卷|本卷|卷面|题量|题型|考题|选择题|填空题|时长|"
    r"分钟|"
    r"评分|打分|分数线|[及合]格线|录取线|"
    r"如果|假设|假如|函数|代码|if |>=|<=|==|分制|制为|至少|不低于|不少于|不得|要求|报名|词汇|倒计时|单元(?![测考])|"
    r"教材|课本|"
    r"练习|出[一\d]+[道份套]|占比|"
    r"权重|比例|难度|学分|修满|标准|规则|模板|字段|示例|例题|例如|求平均|方差|随机|(?<!学)生成|查重|版"
)
_MOVED_FROM = Lazy(r"[从由][ ]?\d[^,，。]{0,7}[到至]了?[ ]?\Z")
_COMMA = Lazy("[,，、](?!满分)")
_WISH = Lazy(r"目标|希望|想[考冲上拿]|争取|冲[刺到]?|计划|打算|力争|期望|需要|应该|准备考|若|才能|以上[才可]|就[能可]")
_ELSEWHERE = Lazy(
    r"球|比赛|战胜|联赛|[决半]赛|赛季|锦标|城市|公司|行业|世界|全球|国家|跑分|QPS|模型|版本|评测|基准|豆瓣|餐|酒店|"
    r"信用|满意|绩效|考核|考勤|考虑|考察|思考|参考|"
    r"压测|覆盖|接口|服务器|端口|延迟|品牌|销量|市场|股|价格|预算|电影|游戏|跑步|米|歌|舞|棋|大赛|邀请赛|运动会|"
    r"大学排名|GDP|榜单|排行"
)
_ORDINAL = Lazy(
    rf"倒数(?:第?[ ]?[\d{_DIGITS}十]{{1,3}})?|(?:第|前)[ ]?[\d{_DIGITS}十百]{{1,4}}(?:名|位)?|"
    rf"(?<![\d第.])\d{{1,4}}[ ]?(?:多|几)?[ ]?名(?!额)|"
    r"(?<![\d.])\d{2,4}[ ]?(?:名?开外|名?左右|多名|名?以[外后])"
)
_ORDINAL_UNIT = Lazy(
    r"[ ]?(?:[章节课题页册单组次天周月年届期版步条项点个道种类轮季号话回集卷部篇讲段行列]|志愿|学期|"
    r"名?[同男女]?学生?|名?老师|名?教师|名?员工|人称|时间|"
    r"阶段|方|例|句|层|世|任)"
)
_RANKED_IN = Lazy(
    r"班(?![车次])|年级|年段|级部|专业|全校|全系|岗位|考|名次|成绩|排名?|学霸|学期|月考|联考|模拟|进步|退步|掉出|跌出"
)
_STATE = Lazy(
    r"(?:班|年级|全校)[^,，。]{0,3}最[高低]分|"
    r"(?:班|年级|成绩|考试)[^,，。]{0,5}(?:排|处|属|在)[^,，。]{0,3}(?:[中上下]{1,2}游|中等|中[上下]|末尾|最后)|"
    rf"(?:{SUBJECT}|{EXAM}|成绩|名次|论文|测验|总分|钢琴[\u4e00-\u9fff]级)[^,，。\d]{{0,8}}?(?:一落千丈|直线下降|"
    rf"全[优错]|及格水平|优秀(?![\u4e00-\u9fff])|良好(?![\u4e00-\u9fff])|下滑|滑坡|退步|倒数|垫底|拖后腿|满分|全对|"
    rf"一塌糊涂|惨不忍睹|"
    r"被?[评判]为(?:[优良中差]|不?合格)(?![\u4e00-\u9fff])|不及格|没及格|[又再还都]?没过(?!线)|考[砸糊崩])"
)
_GRADES = Lazy(
    r"(?:[一二两三四五六七八九\d]|[几全])[ ]?[门科个][ ]?(?:都是|全是)?[ ]?[A-F][+\-]?(?![A-Za-z0-9])|"
    rf"(?:{SUBJECT}|{EXAM}|"
    rf"成绩|得分|等级|测评|评定|作业|"
    rf"总评)[^,，。A-Za-z\d]{{0,4}}[ ]?[A-F][+\-]?(?:等级?)?(?![A-Za-z0-9卷版组型类班套股区座级]|[ ]?[选项])|"
    rf"(?:{SUBJECT}|成绩)[^,，。A-Za-z\d]{{0,4}}[优良](?:等|(?![\u4e00-\u9fff]))"
)

# 语 92 数 105 英 87; 李雷 87 韩梅梅 93; 做对了 61 题.
_IN_ROW = Lazy(
    r"(?:[语数英外物化生政史地科][ :]?\d{2,3}(?![\d页题道分钟班级人年月节])[ ,，、/]{0,2}){2,8}|"
    rf"(?:(?:[{SURNAMES}][\u4e00-\u9fff]{{1,2}}|[小老][\u4e00-\u9fff]|同学[甲乙丙丁\u4e00-\u9fffA-Z]|"
    r"[甲乙丙丁]|\d{1,2}[ ]?号)(?:同学)?[ :]{0,2}\d{2,3}"
    r"(?![\d页题道班级人年月节元岁斤块])分?[ ,，、]{0,2}){2,20}|[对错]了[ ]?\d{1,3}[ ]?[题道个]"
)
_MARKED = Lazy(rf"考|口算|听写|默写|单词|成绩|测验|小测|分数|学生|同学|学期|{SUBJECT}|{EXAM}")


def find(page: Page) -> Iterator[Finding]:
    """Yields bare marks, grades of letters, ranks and rows of marks; the subject before a bare mark stays "
    "readable."""
    matches = list(_NUMBER.finditer(page.text))
    near = {match.start() for match in matches if _NEAR.search(page.before(match.start(), 24))}
    for match, weigh in ration(matches):
        if not weigh or _is_mark(page, match.start(), match.end(), match.start() in near, len(near) > 1):
            # 从 60 提到 85 is one telling: the mark it began with goes as well.
            moved = _MOVED_FROM.search(page.before(match.start(), 16))
            yield page.finding("score", match.start() - (len(moved[0]) if moved else 0), match.end())
    for pattern in (_STATE, _GRADES):
        for match, weigh in ration(pattern.finditer(page.text)):
            if not weigh or _is_told(page, match):
                yield page.finding("score", match.start(), match.end())
    for match, weigh in ration(_IN_ROW.finditer(page.text)):
        around = page.before(match.start()) + match[0] + page.after(match.end(), 20)
        if not weigh or (_MARKED.search(around) and not _specified(page, match.start(), match.end())):
            yield page.finding("score", match.start(), match.end())
    for match, weigh in ration(_ORDINAL.finditer(page.text)):
        if not weigh or _is_rank(page, match.start(), match.end()):
            yield page.finding("score", match.start(), match.end())


def _specified(page: Page, start: int, end: int) -> bool:
    """Says whether the sentence specifies an exam or tells of something else, or the clause of a wish."""
    # What follows the next comma is another thing: 数学 85,老师建议多做练习.
    lead, rest = page.before(start, 36), _COMMA.split(page.after(end, 30))[0]
    clause = _clause(lead)
    around = lead + page.text[start:end] + rest
    return bool(_SPEC.search(around) or _ELSEWHERE.search(around) or _WISH.search(clause))


def _clause(lead: str) -> str:
    return lead[max(lead.rfind(","), lead.rfind("，"), lead.rfind("、")) + 1 :]


def _about_somebody(page: Page, at: int) -> bool:
    lead = page.before(at)
    return bool(_ANYBODY.search(lead + page.after(at, 30)) or PERSON.search(lead + page.after(at, 8)))


def _is_told(page: Page, match: re.Match[str]) -> bool:
    if _specified(page, match.start(), match.end()):
        return False
    gained = _GAINED.search(page.before(match.start())) is not None or match[0][-1] in "+-"
    return gained or _about_somebody(page, match.start())


def _is_mark(page: Page, start: int, end: int, near: bool, listed: bool) -> bool:
    value, rest = page.text[start:end], page.after(end, 8)
    if value in _WHOLES and page.before(start).rstrip(" :").endswith("总分"):
        return False
    if _UNIT.match(rest) or _PASS_MARK.match(rest) or _specified(page, start, end):
        return False
    lead = page.before(start)
    clause = _clause(lead)
    told = _about_somebody(page, start)
    result = _RESULT.search(clause) is not None or _SAT.search(lead) is not None
    if near:
        if _CODED.search(lead) and not result:
            return False
        small = value.isdigit() and int(value) < 10
        return (result or told or listed) and (_TAIL.match(rest) is not None or result) and not (small and not result)
    gained = _GAINED.search(lead) is not None
    return (
        gained
        and (told or listed or _SAT.search(lead) is not None)
        and _OF_SCHOOL.search(lead + rest) is not None
        and _TAIL.match(rest) is not None
    )


def _is_rank(page: Page, start: int, end: int) -> bool:
    if _ORDINAL_UNIT.match(page.after(end, 6)) or _specified(page, start, end):
        return False
    lead = page.before(start)
    return _RANKED_IN.search(lead) is not None and _about_somebody(page, start)
