"""Marks, ranks and grades of a person are found; specifications, wishes and other points are kept."""

from __future__ import annotations

import pytest

from tests.red import check

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


@pytest.mark.parametrize("text", SCORES)
def test_a_mark_of_a_person_is_found(text: str) -> None:
    check(text, "score")


@pytest.mark.parametrize("text", NO_SCORES)
def test_points_that_are_nobodys_mark_are_kept(text: str) -> None:
    check(text, None)
