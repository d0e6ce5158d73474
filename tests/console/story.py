"""What the screenshots show: a teacher of mathematics who never lived, in Chinese and in English, and her assistant."""

from __future__ import annotations

from memsvc.v1 import memory_pb2 as pb

C, F, X = pb.RUN_OUTCOME_COMPLETED, pb.RUN_OUTCOME_FAILED, pb.RUN_OUTCOME_CANCELLED

TALK_ZH = (
    ("出一份数据结构试卷，60 分钟，总分 100 分，高二用。", "试卷已拟好：选择题 10 道（40 分，栈、队列、链表），填空题 5 道（20 分，二叉树遍历），简答题 4 道（40 分，排序与查找）。需要我附上答案吗？", C),
    ("简答题换两道，不要考排序。", "已把第 1、3 道简答题换成：\n1. 哈希冲突的两种解决办法，各举一例；\n3. 用栈判断括号是否匹配，写出步骤。\n其余两道不变，总分仍为 100 分。", C),
    ("选择题里加一道图的深度优先遍历。", "已用第 10 题换成图的深度优先遍历：给出邻接表，问从顶点 A 出发的访问次序。", C),
    ("再写一份答案和评分标准。", "答案与评分标准：一、选择题每题 4 分：1. B　2. C　3. A　4. D", X),
    ("接着写，评分标准只要简答题的。", "简答题每题 10 分：要点正确 6 分，举例恰当 2 分，表述清楚 2 分。哈希冲突一题只写出一种办法的，最多得 5 分。", C),
    ("把整份卷子导出成 Word，封面用黑色。", "", F),
    ("那先给我看看封面的文字。", "封面文字：\n××中学 2026 学年第一学期期中考试\n高二年级　数据结构\n（时间 60 分钟，满分 100 分）\n班级＿＿＿＿　姓名＿＿＿＿", C),
    ("班级那行放到最下面，以后的卷子都这样排。", "好，“班级／姓名”已移到封面最下方一行，两端对齐。以后的卷子我都照这个版式排。", C),
    ("下周三之前还要一份听力材料，十分钟左右。", "可以。听力材料按每分钟 120 词估算，十分钟约 1200 词；我会分成三段对话和一段独白，周二下班前给您初稿。", C),
    ("简答题再压缩一下，学生上次没写完。", "已把简答题从 4 道减为 3 道，每题 12 分，余下 4 分加到填空题；按上次的速度估计，学生大约 52 分钟可以答完。", C),
)  # fmt: skip

TALK_EN = (
    ("Plan a 45 minute lesson on linked lists; my class has no computers.", "Plan: 10 min a paper chain as a linked list, 20 min inserting and deleting nodes by hand in pairs, 10 min comparison with arrays, 5 min exit ticket. No computers needed.", C),
    ("Make the pair work shorter and add homework.", "Pair work is now 15 minutes. Homework: draw the list after three deletions and say which pointers changed.", C),
    ("What did we say about computers?", "Your class has none, so everything is done on paper.", C),
    ("Write the exit ticket.", "Exit ticket:\n1. Draw a list of three nodes.\n2. Delete the middle", X),
    ("Go on, two questions are enough.", "Exit ticket:\n1. Draw a list of three nodes and delete the middle one.\n2. Which pointer changed, and why only that one?", C),
    ("Export all of it as a PDF with large print.", "", F),
    ("Then give me the headings in large print as text.", "LINKED LISTS ON PAPER\nWhat we build · What we change · What we compare · What we take home", C),
    ("I always want the homework on a page of its own.", "Done: homework stands on a page of its own, and I will keep it so in later plans.", C),
    ("Add a five minute warm-up on arrays.", "Warm-up: a row of eight chairs; pupils insert a chair in the middle and count who has to move. Pair work goes down to 10 minutes to make room.", C),
)  # fmt: skip

PROPOSED_ZH = (
    {"fact": "试卷封面的“班级／姓名”放在最下面一行", "confidence": 0.93, "run": 1, "supersedes": None},
    {"fact": "学生约需 52 分钟答完三道简答题的卷子", "confidence": 0.71, "run": 1, "supersedes": None},
    {"fact": "用户偏好黑色封面", "confidence": 0.58, "run": 1, "supersedes": None},
)

PROPOSED_EN = (
    {"fact": "The user wants homework on a page of its own", "confidence": 0.94, "run": 1, "supersedes": None},
    {"fact": "The user's class works without computers", "confidence": 0.88, "run": 1, "supersedes": None},
    {"fact": "The user likes warm-ups that make pupils move", "confidence": 0.52, "run": 1, "supersedes": None},
)

FACTS_ZH = (
    "用户教高二数学和信息技术", "试卷总分 100 分，考试时间 60 分钟", "简答题不考排序算法", "用户习惯先看大纲，再看全文",
    "教案用表格，三列：时间、教师活动、学生活动", "班里有 46 名学生，机房只有 20 台电脑", "用户称呼助手“小石”",
    "作业每周二、四布置，周末不留", "用户希望例题取自生活，少用抽象字母",
)  # fmt: skip

FACTS_EN = (
    "The user teaches year 11 computing", "Lessons last 45 minutes", "The class has 28 pupils and no computers",
    "The user prefers an outline before the full text", "Homework is set on Tuesdays and Thursdays only",
    "The user marks on paper, in green", "Examples should come from daily life",
)  # fmt: skip

SUMMARY_ZH = (
    "用户要一份高二数据结构试卷：60 分钟，100 分，选择、填空、简答三部分。已按要求去掉排序，加入哈希冲突、括号匹配和图的深度优先遍历；"
    "评分标准只要简答题的。导出 Word 未成功。"
)
SUMMARY_EN = (
    "The user plans a 45 minute lesson on linked lists for a class without computers: a paper chain, pair work (shortened to "
    "15 minutes), comparison with arrays, an exit ticket of two questions, and homework about deletions."
)

TITLES_ZH = (
    "高一函数单调性的导入怎么设计", "家长会发言稿，三分钟以内", "把这段文言文改写成现代汉语，给学生做对照阅读", "期中考试各班均分对比说明",
    "实验课安全须知，一页纸", "运动会开幕式主持词", "二次函数图像平移的五道变式题", "学生总把导数和微分搞混，怎么讲",
    "校本课程《生活中的算法》大纲", "给新教师的班主任工作清单，要具体到每天早读前做什么、晚自习后检查什么", "寒假作业怎么布置才有人做", "立体几何截面问题专题",
)  # fmt: skip

TITLES_EN = (
    "How to introduce recursion without a computer", "Letter to parents about the school trip", "Five exercises on binary search",
    "Rewrite this passage for weaker readers, keep the technical terms and add a glossary at the end", "Seating plan for 28 pupils",
    "A quiz on boolean algebra", "Rubric for the spring project", "Cover lesson for Friday", "Explain hashing with coat hooks",
    "Ideas for the open day", "Feedback phrases that are not empty", "Sorting networks on the playground",
)  # fmt: skip

ANSWERS_ZH = "可以。我按您平时的习惯先列大纲：一、情境引入（3 分钟）；二、观察与猜想（8 分钟）；三、归纳定义（10 分钟）；四、分层练习（15 分钟）；五、小结与作业（4 分钟）。每一步我都配了板书和可能的学生回答，您看看顺序是否合适。"
ANSWERS_EN = "Yes. I begin with an outline as you like it: first a picture from daily life, then a guess by the class, then the definition in their own words, three exercises of rising difficulty, and a short exit ticket. Board sketches and likely answers are below; say where the order does not suit you."

REPLACED_ZH = ("试卷总分 100 分，考试时间 60 分钟", "试卷总分 100 分，考试时间改为 45 分钟")
REPLACED_EN = ("Lessons last 45 minutes", "Lessons last 50 minutes from January on")
