"""Health told of a person is found; diseases as a topic, a trade or a figure of speech are kept."""

from __future__ import annotations

import pytest

from tests.red import check

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
    "小王长了智齿，发炎了",
    "我妈最近膝盖疼得走不了路",
    "他右耳听力只剩三成",
    "昨天打球把手指弄骨折了",
    "他在精神科住了两个月",
    "胸片提示右下肺感染",
    "我闻到花粉就喘不上气",
    "病人张某血钾 2.9，已补钾",
    "医生让我停掉华法林",
    "她产后三个月，情绪低落",
    "每晚靠安眠药才能睡",
    "My mom has terrible knee pain",
    "He was rushed to the ER with chest pains",
    "I threw up all night",
    "She had her appendix out",
    "My husband just had a stent put in",
    "He tried to kill himself last year",
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
    "请翻译：他患有高血压",
    "我家狗狗得了皮肤病",
    "公司有病假制度，全薪 5 天",
    "手把手教你部署",
    "眼前一亮的设计",
    "输液泵的硬件接口文档",
    "这个 bug 让人头疼",
    "The codebase needs surgery",
    "My car broke down",
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


@pytest.mark.parametrize("text", HEALTH)
def test_the_health_of_a_person_is_found(text: str) -> None:
    check(text, "health")


@pytest.mark.parametrize("text", NO_HEALTH)
def test_health_as_a_topic_is_kept(text: str) -> None:
    check(text, None)
