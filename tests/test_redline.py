"""Red lines: numbers, marks and health are found however they are written; specifications and topics are kept."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stdnum import luhn
from stdnum.cn import ric

from memsvc.rules import redline

CARD = "622202100011223344" + luhn.calc_check_digit("622202100011223344")
ID = "11010119900307803" + ric.calc_check_digit("110101199003078030")
FULL_WIDTH = str.maketrans("0123456789", "０１２３４５６７８９")
HAN = str.maketrans("0123456789", "零一二三四五六七八九")
ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")


def check(text: str, category: str | None) -> None:
    """Holds `text` against the one category it must be blocked for, or None for what is kept."""
    found = redline.find(text)
    seen = [(finding.category, text[finding.start : finding.end]) for finding in found]
    assert (category in {name for name, _ in seen}) if category else not seen, (text, seen)


RESIDENT_IDS = [
    f"身份证号{ID}",
    f"张三的号码是{ID}请记住",
    f"身份证：{ID[:6]} {ID[6:14]} {ID[14:]}",
    f"身份证{ID.translate(FULL_WIDTH)}",
    f"证件 {ID.translate(HAN)}",
    f"证件 {ID.translate(ARABIC)}",
    "身份证" + "\u200b".join(ID),
    "-".join(ID),
    f"my id number is {ID}.",
    "身份证号 110101199001011234",
    "老身份证号110101900307851",
    "香港身份证 A123456(3)",
    "A123456789",
]
CARDS = [
    f"工资卡号{CARD}",
    "卡号 " + " ".join(CARD[i : i + 4] for i in range(0, len(CARD), 4)),
    f"{CARD}",
    "银行卡 6222 0200 0000 0000",
    "pay with 4242 4242 4242 4242",
    "amex 378282246310005",
    "my credit card number is 675900127803",
    "对公账户 1102 0201 0900 1234 567",
]
PHONES = [
    "用户的手机号是13812345678",
    "电话 138-1234-5678 可以找到他",
    "张三13812345678",
    "一三八一二三四五六七八是我的号",
    "电话是幺三九零零幺二三四五六",
    "+8613912345678",
    "0086 139 1234 5678",
    "1 3 8 1 2 3 4 5 6 7 8",
    "座机 010-62345678",
    "家里电话 62345678",
    "QQ：123456789",
    "my cell is 415-555-0132",
    "call me at (212) 555-0187",
    "+44 20 7946 0958",
]
OTHER_IDENTIFIERS = [
    ("护照号码E12345678", "passport"),
    ("护照 G 1234 5678", "passport"),
    ("EA1234567 是我的护照号", "passport"),
    ("My passport no. is C01234567", "passport"),
    ("港澳通行证 C12345678", "passport"),
    ("GB82 WEST 1234 5698 7654 32", "iban"),
    ("iban: DE89370400440532013000", "iban"),
    ("SSN 123-45-6789", "ssn"),
    ("my social security number is 123456789", "ssn"),
    ("ITIN 912-70-1234", "itin"),
    ("NINO AB123456C", "nino"),
    ("Aadhaar 2345 6789 0124", "aadhaar"),
    ("the NHS number 9434765919", "nhs"),
    ("邮箱：zhang_san@mail.example", "email"),
    ("write to jane.doe+work@mail.example.org", "email"),
]
NO_NUMBERS = [
    "订单号 214714782076 已发货",
    f"订单号：{CARD}",
    "运单号 SF1234567890123",
    "参考书 ISBN 978-7-302-51234-5",
    "条形码 6901234567892",
    "端口 8080 和 50051，版本 v2.3.1-rc4",
    "服务器 192.168.10.100 与 139.224.100.10",
    "2026-12-01 13:45:30",
    "时间戳 1733031930123",
    "手机预算 3000-4000 元",
    "价格 13,812,345,678 元",
    "圆周率 3.14159265358979323846",
    "12 24 36 48 60 72 84 96 108",
    "0 1 1 2 3 5 8 13 21 34 55",
    "uuid 550e8400-e29b-41d4-a716-446655440000",
    "commit 9f8e7d6c5b4a39281706",
    "一二三四五六七八九十",
    "part number E12345678",
    "客服热线 10086",
    "git@github.com:owner/repository.git",
    "用户在做手机号校验的正则",
]
SCORES = [
    "小明数学考了92分",
    "她期末语文得了九十二分",
    "数学９２分，语文：85",
    "小红的语文卷子得了88分",
    "这学期线性代数 76，概率论 81",
    "化学：九十一",
    "数 学 9 2 分，小明的",
    "他补考才过，61分",
    "孩子这次数学跌到了60分",
    "三门主课期末分别是 92、88、95 分，孩子很高兴",
    "孩子英语四十几分",
    "用户去年高考考了623分",
    "六级437分",
    "CET-6: 512",
    "雅思6.5",
    "平均绩点3.68",
    "她的GPA是3.85",
    "专业排名第13名",
    "他这次考试全班第一",
    "平均分87分，排名12/130",
    "他英语得了A-",
    "数学考了满分",
    "小刚的体育成绩不及格",
    "她高数挂了，要重修",
    "我成绩在班里垫底",
    "His GPA is 3.2 this term",
    "She scored 92 on the math exam",
    "Math: 92, English: 88",
    "He got an A- in chemistry",
    "received 78 out of 100 on the midterm",
    "midterm: 74/100",
    "my SAT score is 1420",
    "IELTS 7.5 overall",
    "Emma ranked 3rd in her class",
    "I failed my history final",
    "she is a straight-A student",
    "Tom scored ninety-two in biology",
    "Lily's math grade dropped to 62",
]
NO_SCORES = [
    "出一份60分钟的试卷，总分100分",
    "试卷规格：60分钟，总分100分，选择题20道每题2分",
    "本试卷总分100分，80分通过",
    "数学试卷总分150分，90分及以上为合格。",
    "高考满分750分，其中语文150分，数学150分，外语150分",
    "作文60分，阅读40分",
    "及格线60分，分数线去年是580分",
    "答对一题得2分，答错扣1分",
    "平时成绩占30%，期末占70%",
    "每个学生最多得100分",
    "数学十分重要",
    "用户上课迟到了十分钟",
    "英语9:30开始，8点25分出门",
    "语文第3单元，物理选修3-1，英语4级词汇表",
    "数学：选择题10道，填空题5道",
    "用户教高二3班物理，带2个班共92人",
    "库里全场得了35分",
    "这部电影豆瓣8.7分",
    "用户的目标是雅思7分",
    "如果分数低于60则输出不及格",
    "学校要求绩点3.0以上才能保研",
    "第3名同学请上台",
    "数学试卷分A卷和B卷",
    "用户要求题目按 3 分、5 分、8 分三档",
    "The exam has 50 questions worth 2 points each",
    "passing score is 60",
    "Section A: 20 marks",
    "Weights: midterm 30%, final 40%, homework 30%",
    "Our team scored 3 goals",
    "F1 score of 0.92",
    "3 of 45 tests failed",
    "needs an IELTS score of 6.5 or above",
    "math class at 9:30",
    "Grade 8 English worksheet",
    "has a B tree index",
]
HEALTH = [
    "他去年确诊了糖尿病",
    "用户长期服用抗抑郁药",
    "用户患有甲状腺功能减退症",
    "学生请假，因为小叶性肺炎住院",
    "我最近被诊断出痤疮，很难受",
    "我爸去年得了带状疱疹",
    "我有直肠脱垂",
    "我妈有高血压",
    "用户对青霉素过敏",
    "外婆阿尔茨海默症晚期",
    "老婆产后抑郁",
    "班里的小华有多动症",
    "体检发现甲状腺结节",
    "用户血压150/95",
    "我怀孕五个月了",
    "用户有痛风，不吃海鲜",
    "用户是乙肝携带者",
    "用户HIV阳性",
    "他有自杀倾向",
    "我骨质疏松，医生让补钙",
    "医生给我开了奥美拉唑",
    "妈妈乳腺癌术后在化疗",
    "我去看了心理医生",
    "患 有 糖 尿 病",
    "She was diagnosed with depression last year",
    "My dad was diagnosed with ainhum last week.",
    "The student is on sick leave because of bursitis",
    "I have type 1 diabetes",
    "He is allergic to peanuts",
    "The user takes insulin daily",
    "my blood pressure is 150/95",
    "He broke his leg",
    "she's in therapy for anxiety",
    "I have hypothyroidism",
    "My grandfather died of lung cancer",
    "user is color blind",
]
NO_HEALTH = [
    "病毒式传播是这次营销的关键",
    "电脑中了病毒，系统诊断出内存泄漏",
    "心脏手术教材第三版",
    "用户是肿瘤科医生",
    "用户研究糖尿病视网膜病变的图像分类",
    "用户教护理学，正在准备糖尿病护理课件",
    "帮我写一篇关于抑郁症的科普",
    "老年人高血压的症状有哪些",
    "用户对细节有强迫症般的要求",
    "用户喜欢炎热的夏天",
    "问题的症结在于配置",
    "用户开发医院住院管理系统",
    "得了冠军，懂得了分享",
    "通过无障碍设计服务更多人",
    "修改病句5道题",
    "用户做过敏感词过滤",
    "用户想学急救",
    "The user is a nurse",
    "write an essay about diabetes",
    "the service suffers from high latency",
    "diagnosed a memory leak",
    "a diploma in music and a great way to add an aroma",
    "translate 'I have a headache' into French",
    "the user is allergic to long meetings",
    "the mitosis worksheet for grade 7",
    "viral marketing",
]
PLAIN = [
    "用户喜欢用深色主题和等宽字体",
    "班里有45名学生，分成9组",
    "用户2026年9月开学",
    "The user prefers answers in bullet points",
    "",
    "\x00\ud800 \u202e",
]


@pytest.mark.parametrize("text", RESIDENT_IDS)
def test_an_identity_number_is_found_in_every_dress(text: str) -> None:
    check(text, "resident_id")


@pytest.mark.parametrize("text", CARDS)
def test_a_card_or_an_account_is_found(text: str) -> None:
    check(text, "bank_card")


@pytest.mark.parametrize("text", PHONES)
def test_a_phone_number_is_found(text: str) -> None:
    check(text, "phone")


@pytest.mark.parametrize(("text", "category"), OTHER_IDENTIFIERS)
def test_an_identifier_of_letters_and_digits_is_found(text: str, category: str) -> None:
    check(text, category)


@pytest.mark.parametrize("text", SCORES)
def test_a_mark_of_a_person_is_found(text: str) -> None:
    check(text, "score")


@pytest.mark.parametrize("text", HEALTH)
def test_the_health_of_a_person_is_found(text: str) -> None:
    check(text, "health")


@pytest.mark.parametrize("text", [*NO_NUMBERS, *NO_SCORES, *NO_HEALTH, *PLAIN])
def test_what_only_looks_like_it_is_kept(text: str) -> None:
    check(text, None)


def test_the_category_is_that_of_the_first_finding() -> None:
    assert redline.category("手机13812345678，数学考了92分") == "phone"
    assert redline.category("数学考了92分，手机13812345678") == "score"
    assert redline.category("用户喜欢深色主题") is None


def test_a_span_covers_the_source_with_all_that_hid_in_it() -> None:
    text = "号码 １３８\u200b1234\u200b5678 完"
    (found,) = redline.find(text)
    assert text[found.start : found.end] == "１３８\u200b1234\u200b5678"


def test_a_summary_says_what_was_left_out_in_its_own_language() -> None:
    zh = redline.redact("小明语文85分、数学92分。他爱踢球，手机13812345678。", "zh-CN")
    assert zh == "小明(涉及学生成绩，略)。他爱踢球，手机(涉及联系方式，略)。"
    en = redline.redact("Reach Ann at ann@mail.example; she likes tea.", "en")
    assert en == "Reach Ann at (contact details omitted); she likes tea."


def test_every_category_has_its_words_in_both_languages() -> None:
    for category in redline.CATEGORIES:
        assert redline.placeholder(category, "zh") != redline.placeholder(category, "en")
        check(redline.placeholder(category, "zh") + redline.placeholder(category, "en"), None)


SEPARATORS = st.sampled_from(["", " ", "-", "\u200b", "\u2060", " \u200d", "\u00ad"])
DRESSES = st.sampled_from([str.maketrans({}), FULL_WIDTH, HAN, ARABIC])
CARRIERS = st.sampled_from(
    [
        "用户说{}请记住",
        "我是{}。",
        "{}",
        "The user said {} and left",
        "联系王老师（{}）",
        "see {}, thanks",
        "记：{}；好",
    ]
)
BIRTHS = st.dates(min_value=datetime.date(1930, 1, 1), max_value=datetime.date(2025, 12, 31))


def dressed(number: str, groups: list[int], separator: str, dress: dict[int, str]) -> str:
    """Cuts `number` into groups, joins them with one separator, and writes its digits in another script."""
    cut, at = [], 0
    for size in groups:
        cut.append(number[at : at + size])
        at += size
    return separator.join([*cut, number[at:]]).translate(dress)


@given(
    st.sampled_from(["110101", "310104", "440305", "510107", "650102"]),
    BIRTHS,
    st.integers(0, 999),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    SEPARATORS,
    DRESSES,
    CARRIERS,
)
@settings(max_examples=150, deadline=None)
def test_any_valid_resident_id_is_found(
    place: str, birth: object, serial: int, groups: list[int], separator: str, dress: dict[int, str], carrier: str
) -> None:
    first = f"{place}{str(birth).replace('-', '')}{serial:03d}"
    number = first + ric.calc_check_digit(first + "0")
    check(carrier.format(dressed(number, groups, separator, dress)), "resident_id")


@given(
    st.sampled_from(["622202", "621700", "623058", "436742", "552245", "356600"]),
    st.integers(0, 10**9 - 1),
    st.sampled_from([[], [4, 4, 4], [6]]),
    SEPARATORS,
    DRESSES,
    CARRIERS,
)
@settings(max_examples=150, deadline=None)
def test_any_card_with_its_check_digit_is_found(
    bank: str, serial: int, groups: list[int], separator: str, dress: dict[int, str], carrier: str
) -> None:
    first = f"{bank}{serial:09d}"
    number = first + luhn.calc_check_digit(first)
    assert redline.find(carrier.format(dressed(number, groups, separator, dress)))


@given(
    st.integers(3, 9),
    st.integers(0, 10**9 - 1),
    st.sampled_from([[], [3, 4], [3, 3], [7]]),
    SEPARATORS,
    DRESSES,
    CARRIERS,
)
@settings(max_examples=150, deadline=None)
def test_any_mobile_number_is_found(
    second: int, rest: int, groups: list[int], separator: str, dress: dict[int, str], carrier: str
) -> None:
    assert redline.find(carrier.format(dressed(f"1{second}{rest:09d}", groups, separator, dress)))


SCRAPS = st.sampled_from(
    [
        *RESIDENT_IDS,
        *CARDS,
        *PHONES,
        *SCORES,
        *HEALTH,
        *NO_SCORES,
        *PLAIN,
        "，",
        "。",
        " ",
        "1",
        "分",
        "(涉及健康信息，略)",
    ]
)


@given(st.lists(st.one_of(SCRAPS, st.text(max_size=8)), max_size=6).map("".join), st.sampled_from(["zh", "en"]))
@example("13812345678" * 3, "zh")
@example("数学(涉及学生成绩，略)92分", "en")
@settings(max_examples=200, deadline=None)
def test_redacting_leaves_nothing_to_find_and_twice_is_once(text: str, locale: str) -> None:
    once = redline.redact(text, locale)
    assert redline.find(once) == []
    assert redline.redact(once, locale) == once


@given(st.text(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_text_is_looked_through_and_spans_lie_in_it(text: str) -> None:
    for found in redline.find(text):
        assert 0 <= found.start < found.end <= len(text)
        assert found.category in redline.CATEGORIES


@pytest.mark.parametrize(
    "unit", ["1", "1 ", "4 ", " ", "九", "分", "9分", "病", "我有", "数学", "@", "a@a.", "he has a ", "AL47 ", ID + " "]
)
def test_a_long_hostile_text_is_looked_through(unit: str) -> None:
    redline.find(unit * (30_000 // len(unit)))


def test_more_numbers_than_are_checked_are_blocked_by_their_look() -> None:
    wrong = "4111 1111 1111 1112 "
    assert redline.find(wrong) == []
    assert redline.find(wrong * 3000)
