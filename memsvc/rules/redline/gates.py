"""Quick looks at a sentence that let it go before any rule reads it: without certain words nothing can be found.

A gate may say yes where there is nothing, never no where a rule would find something; most sentences of most texts
pass none, so the rules may be long. Every gate is one walk over the sentence.
"""

from __future__ import annotations

import re

from memsvc.rules.redline.page import Gate

_WORD = re.compile(r"[a-z]{2,}")


def stems(words: str) -> Gate:
    """Returns the gate for English text that holds a word of `words`, one letter more, or its first seven letters.

    A word of `words` that begins with a hyphen is an ending.
    """
    listed = words.split()
    endings = tuple(word[1:] for word in listed if word[0] == "-")
    heads = frozenset(word[:7] for word in listed if word[0] != "-")

    def gate(sentence: str) -> bool:
        seen = set(_WORD.findall(sentence.lower()))
        return any(word[:7] in heads or word[:-1] in heads or word.endswith(endings) for word in seen)

    return gate


def glyphs(singles: str, pairs: str) -> Gate:
    """Returns the gate for Chinese text that holds a character of `singles` or two neighbours listed in `pairs`.

    In a pair `_` stands for a blank.
    """
    alone = re.compile(f"[{singles}]")
    listed = frozenset(pair.replace("_", " ") for pair in pairs.split())
    # Two sets of characters let most neighbours go at the engine's speed; the few that are left are looked up.
    first, second = ("".join(sorted({re.escape(pair[i]) for pair in listed})) for i in (0, 1))
    likely = re.compile(f"[{first}](?=[{second}])")

    def gate(sentence: str) -> bool:
        if alone.search(sentence):
            return True
        return any(sentence[hit.start() : hit.end() + 1] in listed for hit in likely.finditer(sentence))

    return gate


# A sentence is let go by two quick looks: without a word of school and something that can be a mark, there is none.
SCORES_ZH = (
    glyphs(
        "考绩班课卷挂榜学",
        "周测 退步 进步 物化 化生 史地 政史 考砸 _分 估分 加起 口算 摸底 0分 1分 2分 3分 4分 5分 6分 7分 8分 9分 "
        "二分 三分 四分 五分 六分 七分 八分 九分 几分 学分 满分 零分 得分 总分 均分 高分 低分 分数 单分 "
        "名次 年级 测验 测评 小测 作业 学期 学业 学分 语文 数学 英语 外语 物理 化学 生物 历史 地理 政治 道法 "
        "品德 科学 体育 音乐 美术 信息 "
        "日语 法语 德语 俄语 牙语 理综 文综 小科 高数 线代 高代 概率 微积 C语 语言 ++ Ja Py 计组 计网 操作 大物 "
        "大英 模电 数电 电路 马原 "
        "毛概 思修 思政 近代 习概 形势 军训 论文 口语 听力 阅读 写作 作文 听写 默写 书法 医学 药学 哲学 文学 史学 "
        "力学 法学 代数 几何 原理 导论 "
        "概论 结构 统计 会计 经济 程序 数据 网络 实验 设计 必修 选修 期末 期中 一模 二模 三模 模拟 联考 毕设 答辩 "
        "实训 段考 质检 科目 教资 行测 申论 软考 "
        "四级 六级 八级 专四 专八 竞赛 笔试 面试 初试 复试 入学 毕业 托福 雅思 托业 通话 CE IE TO GR GM SA AC PT "
        "PE GP G. N1 N2 N3 N4 N5 HS "
        "排名 排第 总评 平均 均绩 专业 全校 全年 全区 全市 全县 全省 系里 综合 位次 垫底 倒数 及格 合格 过线 白卷 "
        "留级 退学 满分 考砸 落榜 重修",
    ),
    re.compile(
        r"[\d二三四五六七八九十百〇零两差砸挂垫倒优良]|个位数|双百|一落|全[优错对]|满分|直线|鸭蛋|[A-F](?![a-z])|"
        r"第一|一名|满分|及格|合格|"
        r"[没未][能有]?[考通过]|"
        r"落榜|补考|重修|白卷|留级|退学|中[等上下]|[上下]游|偏[上下]|下滑|下降|退步|拔尖|不理想"
    ).search,
)

# A sentence without any of this holds no disease, no complaint and no treatment. U+7592 to U+7677 are the characters
# written with the sign of illness.
HEALTH_ZH = (
    glyphs(
        "\u7592-\u7677炎血孕胎药诊患残肿肝肾肺胃胆脾胰腺膝髋踝腕肘腹尿哮喘咳吐呕泻晕疱肛瓣颅酗癖瘾嗝噎呃窒衄谵憩潴痉癫聋哑瞎崴螨虚喉虱烧",
        "耳背 伤残 感统 糖化 落枕 闻不 血压 尿检 骨龄 毛过 精子 胆固 专注 安眠 甲亢 甲减 类风 加号 工伤 血透 截断 "
        "情绪 心情 想活 "
        "想死 不下 跳楼 吞药 "
        "自伤 "
        "睡不 站不 坐不 躺不 起了 流血 "
        "鼻塞 鼻涕 胸片 片子 化验 体检 片提 "
        "超声 超提 病房 急诊 救护 "
        "胶囊 颗粒 冲剂 mg 毫克 没保 预产 两道 待产 半身 行动 小便 幽门 杆菌 慢支 多囊 牙疼 眼睛 左眼 右眼 双眼 "
        "嗅觉 味觉 记忆 石膏 "
        "综合 合征 合症 障碍 衰竭 脑梗 心梗 梗死 梗塞 梗阻 脱位 脱垂 脱臼 脱水 脱发 脱离 脱落 脱肛 坏死 闭锁 积液 "
        "积水 硬化 维化 "
        "萎缩 增生 肥大 畸形 缺损 不全 亢进 减退 狭窄 破裂 穿孔 扭转 损伤 结节 异常 下垂 移位 突出 钙化 撕裂 断裂 "
        "溃烂 溃疡 弯曲 "
        "不齐 劳损 结石 息肉 扩张 粘连 嵌顿 反流 栓塞 过速 过缓 不稳 低下 内翻 外翻 无力 乏力 手伤 脚伤 腿伤 腰伤 "
        "背伤 肩伤 颈伤 发炎 "
        "化脓 早产 早搏 早熟 早泄 早闭 早衰 吸毒 绝症 手抖 掉发 AD HD PT CO HP HI AI IC BM CT B超 白内 青光 失明 "
        "失聪 失眠 失语 失用 "
        "失认 房颤 心理 心率 心律 心肌 心脏 心衰 心悸 心慌 心绞 心口 先心 中风 偏瘫 麻痹 震颤 抽搐 抽动 抽筋 眩晕 "
        "惊厥 便秘 霍乱 鼠疫 "
        "天花 流感 甲流 乙流 新冠 伤寒 破伤 结核 梅毒 淋病 尖锐 艾滋 大三 小三 近视 弱视 斜视 散光 色盲 色弱 截肢 "
        "耳鸣 流产 不孕 "
        "不育 阳痿 月经 经期 闭经 绝经 湿疹 青春 白癜 银屑 鸡眼 灰指 脚气 蛔虫 绦虫 抑郁 躁郁 双相 狂躁 自闭 孤独 "
        "多动 唐氏 "
        "精神 智力 智障 弱智 厌食 暴食 社恐 幻听 幻觉 阴虚 阳虚 气虚 两虚 湿热 湿寒 内热 郁结 郁滞 气滞 火旺 胸痹 "
        "残疾 红热 革热 "
        "黄热 战热 海热 中海 中暑 中毒 感染 烧伤 烫伤 冻伤 扭伤 拉伤 挫伤 擦伤 咬伤 摔伤 撞伤 砸伤 割伤 刺伤 枪伤 "
        "刀伤 电伤 压伤 摔折 骨折 "
        "骨质 韧带 半月 震荡 后遗 创伤 戒断 戒毒 戒酒 成瘾 粥样 静脉 动脉 夹层 过敏 不耐 强直 腰突 颈突 颈椎 腰椎 "
        "椎间 恐惧 "
        "秃顶 秃头 谢顶 渐冻 三高 侏儒 巨人 肥胖 胎记 狐臭 打鼾 呼吸 磨牙 遗尿 黄疸 蛋白 驼背 侧弯 斜颈 平足 弓足 "
        "O型 兔唇 唇裂 腭裂 "
        "多指 并指 缺指 先天 变态 排异 溶血 套叠 腿断 手断 臂断 骨断 偏头 头疼 头痛 头晕 牙疼 牙痛 牙齿 胸闷 肚子 "
        "嗓子 喉咙 关节 神经 后背 肩膀 屁股 脖子 脑袋 "
        "发烧 发热 高烧 低烧 感冒 气短 昏迷 昏厥 休克 浮肿 水肿 喷嚏 怀了 怀上 怀二 怀双 更年 自杀 自残 轻生 割腕 "
        "厌世 崩溃 焦虑 惊恐 "
        "轮椅 视障 听障 肢残 盲人 支架 起搏 假肢 义肢 拐杖 拄拐 助听 植物 卧床 堕产 打胎 产检 病危 不舒 舒服 体不 "
        "体弱 阳性 阴性 阳了 月子 剖腹 "
        "剖宫 试管 人流 结扎 上环 体温 视力 听力 胆固 转氨 肌酐 骨密 甲功 眼压 住院 入院 出院 手术 开刀 术后 化疗 "
        "透析 靶向 移植 搭桥 服用 "
        "口服 注射 打针 输液 治疗 胰岛 激素 褪黑 双胍 布洛 头孢 百忧 利他 舍曲 氟西 酸锂 司匹 安眠 医生 中医 就医 "
        "医院 送医 急诊 复查 病假 "
        "抢救 急救 穿刺 活检 造影 胃镜 肠镜 核磁 彩超 心电 雾化 理疗 针灸 重症 点滴 康复 疫苗 献血 挂号 挂了 洛芬 "
        "拉唑 沙坦 他汀 洛尔 地平 普利 "
        "西林 霉素 沙星 西汀 拉法 西泮 唑仑 氮平 地尔 替尼 单抗 奈德 米松 尼松 甲乐 维A 哌醇 拉嗪 酞普 必妥 药膏 "
        "骨头 甲状 乳腺 前列 子宫 "
        "卵巢 宫颈 网膜 角膜 眼睛 眼底 耳朵 鼻子 鼻窦 扁桃 牙龈 皮肤 羊水 阑尾 淋巴 输卵 精子 声带 脊柱 脊椎 脊髓 "
        "肌肉 跟腱 脚踝 手腕 "
        "分泌 免疫 智齿 包皮 包茎 白细 小板 红蛋 凝血 发作 裂孔 前置 剧吐 软化 浑浊 混浊 阻生 地图 消渴 不寐 上亢 "
        "不足 上火 头风 屑风 粉刺 "
        "激反 应激 多囊 弛缓 高压 发育 Q热 丹毒 伏暑 春温 湿温 风温 冬温 鼻渊 鼻鼽 鼓胀 汗证 厥证 崩漏 带下 滑胎 "
        "子痫 夜啼 鸡胸 斗胸 "
        "溺水 难产 妊娠 异位 少精 弱精 无精 隐睾 龋齿 蛀牙 口吃 结巴 夜惊 梦游 倒睫 飞蚊 老花 夜盲 偏曲 出血 小结 "
        "缺氧 缺铁 缺钙 缺锌 "
        "缺碘 供血 营养 佝偻 矮小 低钾 低钠 低钙 减少 增多 缺乏 肿大 填塞 阻滞 缩窄 未闭 四联 转位 气胸 不张 气肿 "
        "大疱 咯血 空洞 柱裂 "
        "脓肿 脓疱 淤血 疏松 骨刺 滑脱 紊乱 失调 失常 不调 溢液 溢乳 白化 衰弱 变性 过劳 先兆 妄想 木僵 遗忘 昏睡 "
        "嗜睡 多汗 盗汗 自汗 "
        "多毛 甲癣 腋臭 口臭 红肿 反酸 嗳气 染上 艾滋 蹄足 翻足 囊足 立肾",
    ),
)

# A sentence is let go by two quick looks: without something that can be a mark and a word of school, there is none.
SCORES_EN = (
    stems(
        "score academic probation psat dictation aced attainment effort mine graduated passing scraped scored "
        "scores scoring grade graded grades mark marks gpa cgpa average averaged rank ranked ranking "
        "class "
        "classes school exam exams test tests quiz quizzes midterm mid final finals homework assignment essay essays "
        "paper papers project projects thesis lab labs course courses subject semester term report transcript "
        "olympiad "
        "levels gcse gcses sat act gre gmat lsat mcat toefl ielts cet ap math maths english physics chemistry chem "
        "bio "
        "biology history geography science calculus algebra geometry trigonometry statistics stats literature econ "
        "economics spanish french german chinese mandarin japanese latin programming accounting philosophy "
        "psychology "
        "sociology civics social reading writing spelling grammar vocabulary data algorithms operating discrete art "
        "music pe student students percentile valedictorian year cohort form major department dean straight failed "
        "failing fails "
        "flunked flunking bombed result results pass passed placed managed degree top bottom"
    ),
    re.compile(
        r"\d|(?<![A-Za-z])[A-F]{1,5}(?:'?s)?(?![A-Za-z])|(?i:(?:six|seven|eigh|nine|fif|for|thir)ty|fail|flunk|"
        r"bomb|pass|"
        r"zero|full|perfect|top|first|second|third|fourth|fifth|last|bottom|straight|dean|slip|distinction|merit|"
        r"repeat|"
        r"held|redo|retak|resit|drop|fell|fall|tank|plummet|went|improv|gone|probation|cum laude)"
    ).search,
)

# A sentence without the stem or the ending of any ailment, treatment or state tells nobody's health.
HEALTH_EN = (
    stems(
        "-itis -osis -oma -omas -omata -emia -aemia -pathy -algia -plegia -paresis -rrhea -rrhoea -rrhage "
        "-penia -iasis -ectasia -malacia -megaly -trophy -ectopia -phasia -praxia -lexia -somnia -opia -uria "
        "-cele -dystonia -ataxia -spasm -spasms -schisis -plasia -philia -phobia -thyroidism -ectomy -plasty "
        "-statin -pril -sartan -olol -mycin -cillin -azole -idine -oxetine -pram -traline -zepam -zolam -zine "
        "-pine -triptan -gliptin -mab -vir -floxacin -cycline -dipine -parin -setron -formin -tadine -profen "
        "-codone -phylline -semide -thiazide disease disorder syndrome cancer tumor tumour neoplasm carcinoma "
        "leukemia leukaemia diabetes asthma autism autistic adhd add ptsd ocd bpd ibs hiv aids copd als covid "
        "influenza flu pneumonia malaria measles mumps rubella cholera plague tetanus typhoid smallpox "
        "chicken shingles herpes syphilis gonorrhea chlamydia rabies polio leprosy scabies ringworm lice "
        "worms fracture sprain dislocated concussion hernia ulcer abscess cyst polyp lesion wart corns callus "
        "callosity eczema acne rash rashes hives vitiligo stroke strokes heart failure infarction embolism "
        "aneurysm thrombus hypertension hypotension angina arrhythmia palpitations murmur pressure "
        "cholesterol sugar glucose blood epilepsy epileptic seizure migraine headache vertigo fainting palsy "
        "paralysis paralyzed dementia alzheimer parkinson huntington crohn hodgkin lupus gout anorexia "
        "bulimia schizophrenia bipolar psychosis neurosis depression depressed anxiety panic nightmare self "
        "suicide suicidal addict addiction alcoholic withdrawal infertile infertility miscarried miscarriage "
        "menopause endometriosis preeclampsia infection infected poisoning sepsis fever deficiency "
        "insufficiency intolerance intolerant allergy allergic anaphylaxis incontinence constipation diarrhea "
        "reflux gallstone kidney obesity malnutrition scurvy rickets jaundice cirrhosis anaemia anemia "
        "hemophilia haemophilia cataract glaucoma blind deaf hearing vision eyesight sight color colour colorblind "
        "colourblind bulimic anorexic anemic epileptic asthmatic dyslexic "
        "tinnitus cerebral down spina cleft clubfoot malformation deformity agenesis atresia prolapse "
        "obstruction perforation hemorrhage haemorrhage contusion laceration burns frostbite gangrene "
        "necrosis edema oedema effusion torn slipped herniated bulging condition problem problems defect "
        "strep speech impairment impediment disability disabled delay poor weak health myopia astigmatism "
        "strabismus albinism dwarfism botulism rheumatism ivf pcos ckd uti utis std stds sti stis hpv gerd "
        "tbi carpal broke broken sore pain pains chronic insomnia sleep narcolepsy dyslexia stutter mono "
        "mononucleosis lyme celiac coeliac cystic fibroid varicose hemorrhoids haemorrhoids goiter goitre "
        "bunion sciatica scoliosis tic tics tourette hyper hypo diagnosed diagnosis suffer suffers suffered "
        "sick medical leave hospital hospitalized hospitalised hospice icu tested ventilator oxygen "
        "dialysis chemo chemotherapy sober clean recovering knee knees hip hips back joint shoulder lungs "
        "lung memory liver overactive underactive remission ill terminally chronically mentally bedridden "
        "wheelchair attempted prosthetic leg brace pacemaker pregnant pregnancy abortion birth insulin "
        "antidepressant antibiotic antipsychotic steroid radiotherapy radiation painkiller opioid statin "
        "blockers thinner pill pills control inhaler epipen lithium prozac zoloft lexapro xanax adderall "
        "ritalin concerta vyvanse valium ativan wellbutrin ozempic wegovy humira viagra tylenol advil "
        "ibuprofen aspirin paracetamol acetaminophen metformin prednisone warfarin methadone morphine "
        "levothyroxine medication meds medicine mg mcg ml units surgery surgical transplant biopsy "
        "mastectomy section bypass canal mri ct scan colonoscopy therapy therapist psychiatrist psychologist "
        "counseling counselling counselor counsellor rehab oncologist cardiologist neurologist dermatologist "
        "urologist gynecologist gynaecologist endocrinologist physiotherapist aa prescribed appendix gall "
        "tonsils spleen uterus breast prostate wisdom thyroid arm toe finger bmi ldl hdl psa mental nervous "
        "breakdown harm cuts cutting diabetic immunocompromised hypertensive fractured sprained twisted tore "
        "injured wrist ankle lost chest throat cough vomit tumors iron melatonin ms overdose admitted"
    ),
)

_PARTS = stems(
    "heart head eye eyes ear ears nose throat tooth teeth jaw tongue neck shoulders shoulder back spine "
    "chest lungs lung ribs stomach belly abdomen liver kidney bladder bowel hip hips knee knees leg legs "
    "calf calves ankle foot feet heel toe toes arm arms elbow wrist hand hands finger thumb skin joint "
    "muscle hamstring acl meniscus achilles breast breasts prostate ovary uterus thyroid appendix tonsils "
    "gall eyesight vision hearing memory blood sugar cholesterol iron immune"
)
_AILING = stems(
    "hurt hurts ache aches aching achy swollen swelling sore stiff bleed bleeding bled infected infection "
    "inflamed itch itchy itching numb burning burned burnt throbbing killing failing declining "
    "deteriorating worse worsening weak damaged injured broken fractured torn removed replaced bad blurry "
    "high low elevated abnormal irregular control gave giving locked acting bothering acts clogged "
    "ringing enlarged shot messed broke twisted tore pulled strained sprained dislocated threw busted "
    "pain pains injury injuries surgery replacement transplant biopsy problem trouble spasm cramps "
    "failure attack surgical condition disease issues damage lump mass cyst rash shadow nodule numbness "
    "clot out taken scanned lost extracted"
)
_ILL = stems(
    "breath threw throwing vomit vomited vomits vomiting nausea nauseous can't sleep sleeping breathe "
    "fever fevers cough chills runny stuffy bug cramps flashes sweats dizzy blackouts flashbacks symptoms "
    "side passed faint fainted faints collapsed kill harm himself herself myself die dead life overdose "
    "overdosed period periods pregnant conceive expecting baby morning postpartum breastfeeding breast- "
    "feeding stitches cast sling brace crutches rest cane walker cpap catheter sober relapse relapsed "
    "detox hiv covid strep positive rushed hospital hospice hospitalized hospitalised er emergency icu "
    "psych urgent intensive rehab doctor doctors dr gp dentist physician psychiatrist cardiologist "
    "oncologist surgeon therapist specialist meds medication antibiotics antidepressants painkillers "
    "antihistamines pills pill thinners inhibitors blockers hormones hrt steroids supplements mg mcg "
    "units prescription dosage dose mri biopsy scan x-ray xray ultrasound mammogram ct bloodwork blood "
    "lab sick maternity disability flare flares remission metastasized metastasised melatonin leave spectrum "
    "pink pt spiked stent pacemaker implant teeth tooth chemo chemotherapy radiation dialysis ivf treated "
    "surgery ms cf als tb ra cold caught trouble hormone therapy spread"
)


def _complains(sentence: str) -> bool:
    """Either a word of illness, or a part of the body together with what can ail it: hands are in any text."""
    return bool(_ILL(sentence) or (_PARTS(sentence) and _AILING(sentence)))


COMPLAINTS_EN = (_complains,)
