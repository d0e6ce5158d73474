"""Health told of a person in Chinese: 患有…, 确诊了…, 对青霉素过敏, 因…住院, 长期服用….

Diseases are known by what their names end in (the characters written with 疒, 炎, 综合征, 骨折 …), not by a list of
names; and a disease alone is a topic, so it counts only where something ties it to somebody: a verdict, a treatment,
or a person right before it with no word of teaching, writing or research between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memsvc.rules.redline.page import Finding, Lazy, Page, ration

_SURNAMES = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林罗高郑梁谢宋唐许韩邓冯曹彭曾肖田董袁潘蒋蔡余杜叶程苏魏吕丁任沈姚"
    "卢姜崔钟谭陆汪范金石廖"
    "贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤"
)
_PERSON = Lazy(
    rf"[小老][{_SURNAMES}]|[{_SURNAMES}]某某?|该[生患员]|病人|患者(?=[\u4e00-\u9fff]{{0,3}}主诉)|\d{{1,3}}床|家母|"
    rf"家父|闺女|发小|领导|老板|"
    r"师[傅兄姐弟妹]|主管|组长|经理|闺蜜|队友|表[哥姐弟妹]|老[大二三伴妈爸]|"
    r"[我他她俺咱]们?家?|用户|本人|自己|[爸妈爹娘]+|父亲|母亲|父母|爷爷?|奶奶?|姥[姥爷]|外公|外婆|公公|"
    r"婆婆|岳[父母]|[哥弟姐妹]+|儿子|女儿|孩子|宝宝|娃|"
    r"老公|老婆|丈夫|妻子|爱人|对象|男友|女友|男朋友|女朋友|同学|学生|同桌|室友|舍友|朋友|同事|员工|"
    r"家[里中]?人|老人家|亲戚|[舅姑叔伯姨]+|侄[子女]|外甥女?|孙[子女]|"
    r"学妹|学弟|邻居|班长|小[明红华刚丽芳军强美玲杰伟敏静亮东]|这位?女?士|先生|女士|小朋友|当事人|(?:\A|"
    rf"[,，、:\s的])[小老阿]?[{_SURNAMES}]某?[\u4e00-\u9fff]{{0,2}}?(?=的|有|因|患|得了|从|自|去年|最近|在|"
    r"曾|对|昨|今|上|一直|长期|做|正|是|已|又|也|服|确|查|怀|住|需|吃)"
)
_SICK = "痄疔疖疝疟疡疣疥疮疱疳疸疹疽痈痉痔痘痢痤痧痨痪痫痱痹痿瘘瘙瘤瘫瘰瘿癃癌癍癔癜癞癣癫痼疴"
_ORGAN = "肝肾肺心胃肠脑骨胆脾胰腺肌眼耳鼻喉颈椎腰膝肩髋踝腕肘腿脚手臂背胸腹头牙血尿淋巴皮甲状前列宫卵乳"
_TERM = Lazy(
    rf"(?<!懒)[{_SICK}]|(?<![毛通弊诟语心懒公主])病(?![毒句房人例理历友假院床原虫娇态因害媒死亡种区]|入膏肓)|"
    r"(?<!拖延)(?<!选择困难)(?<!后遗)(?<!对)(?<!急)(?<!炎)症(?![状结候])|"
    r"(?<!炎)(?<!炽)(?<!消)(?<!抗)炎(?![热炎黄夏凉帝症龙])|"
    r"综合[征症]|(?:人格|认知|睡眠|情感|情绪|焦虑|抑郁|强迫|语言|发育|学习|阅读|孤独|精神|功能|吞咽|意识|"
    r"运动|视[力觉]|听[力觉]|代谢|凝血|排尿|"
    r"勃起|进食|饮食|躯体[化形式]*|应激|双相|注意力?[缺陷]*|多动|肢体|智力|心理|适应|惊恐|恐惧|循环|传导|"
    r"平衡|记忆|性心理|身份|行为|使用|性欲|形成|营养|吸收|转化|体象|分离|转换|抽动|情感性)障碍|"
    r"(?:衰竭|梗[死塞阻]|套叠|脱[位垂臼]|骨折|坏[疽死]|[闭锁]锁|积[液水血]|水肿|血肿|肿大|肿物|肿块|硬化|"
    r"纤维化|萎缩|增生|肥大|贫血|发育不[良全]|早闭|畸形|缺[损如](?=症|病|\b|[,，。]|\Z)|瓣膜?关闭不全|"
    rf"[{_ORGAN}][^,，。的]{{0,3}}(?:不全|亢进|减退|狭窄|破裂|穿孔|扭转|损伤|出血|结节|异常|下垂|移位|突出|"
    r"钙化|撕裂|断裂|溃烂|弯曲|不齐|劳损|囊肿|结石|息肉|缺损|衰弱|扩张|粘连|嵌顿|反流|栓塞|血栓|过[速缓]|"
    r"不稳|低下|内翻|外翻|脱落|出血热))|"
    r"无力|乏力|[腿手脚腰背肩膝颈膀踝]伤(?!心|感|害)|发炎|化脓|早产|保胎|胎停|孕吐|孕期|备孕|吸毒|酗酒|"
    r"绝症|发育迟缓|脱水|手抖|掉发|ADHD|PTSD|COPD|HPV|结石|囊肿|息肉|肌瘤|结节(?!点)|血[症栓]|尿症|毒症|"
    r"高血[压脂糖]|低血[压糖]|血友|糖尿|哮喘|气喘|痛风|"
    r"中风|脑卒中|偏瘫|截瘫|癫痫|癫|痴呆|帕金森|阿尔茨海默|老年痴呆|白血|麻痹|"
    r"痉挛|震颤|抽搐|眩晕|惊厥|失眠|便秘|腹泻|霍乱|鼠疫|疟|天花(?!板|乱)|流感|甲流|乙流|新冠|伤寒|破伤风|"
    r"肺结核|结核|梅毒|淋病|尖锐湿疣|艾滋|HIV|AIDS|[甲乙丙戊]肝|大三阳|小三阳|(?<![目短])近视|弱视|斜视|"
    r"散光|色[盲弱]|漏尿|截肢|白内障|青光眼|"
    r"失明|失聪|耳聋|耳鸣|聋哑|心律[失不][常齐]|早搏|房颤|心绞痛|心衰|心梗|脑梗|流产|不孕|不育|阳痿|早泄|"
    r"月经不调|湿疹|荨麻疹|青春痘|银屑|白癜风|鸡眼|灰指甲|脚气|螨|蛔虫|绦虫|血吸虫|"
    r"抑郁|躁郁|双相|狂躁|自闭|孤独症|多动|抽动|唐氏|脑瘫|精神分裂|精神失常|智力低下|智障|弱智|厌食|暴食|"
    r"社恐|幻[听觉]|[阴阳气血肾脾肺肝心][阴阳气血]?[两俱亏]?虚(?![拟构假伪心弱实])|两虚|血瘀|[痰湿]湿|"
    r"湿热|内热|郁[滞结热]|淤[血积]|[肝肺胃心]著|胸痹|[肝胃心肺]火旺|气滞|"
    r"残疾|残障|[地登红黄战鼠][中革热]?[海]?热(?=[病,，。]|\Z|住院|正在)|猩红热|登革热|黄热|出血热|中暑|"
    r"中毒|感染(?!力|了?[^,，。]{0,4}(?:热情|情绪|观众|读者|听众|大家|气氛))|烧伤|烫伤|冻伤|扭伤|拉伤|"
    r"挫伤|擦伤|咬伤|[摔骨]折|韧带撕裂|半月板|脑震荡|后遗症|创伤后应激|戒断|成瘾|毒瘾|酒瘾|酒精依赖|"
    r"依赖综合|粥样|静脉曲张|动脉瘤|夹层|大动脉|先心|心脏病|过敏(?!感)|[糖质精白奶]不耐受?|骨质疏松|"
    r"类风湿|强直|慢阻肺|[腰颈]突(?!然|出|破)|肺气肿|恐惧症|社交恐惧|秃[顶头]|谢顶|渐冻|脂肪肝|酒精肝|"
    r"甲[亢减]|三高|早熟|侏儒|巨人症|肥胖症?|痣|胎记|狐臭|打鼾|呼吸暂停|磨牙|遗尿|尿[频急床失]|血尿|"
    r"蛋白尿|黄疸|腹水|脱发|斑秃|驼背|侧弯|扁平足|O型腿|兔唇|腭裂|多指畸形|并指畸形|先天[性]?[缺畸]|"
    r"变态反应|排异|溶血|紫癜|瘢痕|疤痕疙瘩|褥疮|糜烂|溃烂|疥|"
    r"(?:偏头|[头胃肚腹腰牙胸背肩膝]|颈椎|嗓子|喉咙|关节|神经|心口|肚子|膝盖|后背|肩膀|屁股|脖子|"
    r"脑袋)[很好特挺有点别剧]*[疼痛]|痛经|发烧|发热|高烧|低烧|感冒|咳嗽|咳血|呕吐|拉肚子|头晕|心悸|心慌|"
    r"胸闷|气短|便血|吐血|晕倒|昏[迷厥]|休克|浮肿|打喷嚏"
)
_STATE = Lazy(
    r"怀孕|孕\d+周|怀[了上]?[一二双]?胎|[宫外]孕|月经|经期|更年期|自杀|自残|轻生|割腕|厌世|心理(?:问题|"
    r"疾病|创伤|医生|治疗)|精神(?:疾病|问题|状态不)|情绪崩溃|"
    r"(?:重度|严重|长期|中度|轻度|经常|病理性)[的地]?焦虑|焦虑发作|惊恐发作|坐轮椅|"
    r"[拉扭摔撞烫烧割砸咬]伤了|[是为](?:一[名位个])?(?:视障|听障|肢残|盲人|聋)|"
    r"[装植放戴][入了]?[^,，。]{0,4}(?:起搏器|支架|假肢)|[脚腿手腰踝腕臂脖胳膊膝盖头][子上]?(?:给|"
    r"被)?[崴扭摔撞砸割划磕骨断折][伤断破裂到]{0,2}了|拄拐|假肢|义肢|助听器|人工耳蜗|植物人|卧病|卧床|"
    r"堕胎|打胎|产检|病危通知|病危|"
    r"病重|生病|病倒|病了|身体不舒服|身体不好|体弱多病|病情|病历|病史|家族史|遗传史|"
    r"[阳]性(?=[,，。]|\Z)|阳了|月子|剖腹产|剖宫产|试管婴儿|人流(?!量|密)|结扎|上环|"
    r"(?:血压|血糖|血脂|尿酸|体温|视力(?= ?[:是为]?[0145]\.)|血红蛋白|骨密度|胆固醇|(?<!离)心率|转氨酶|"
    r"BMI|眼压|肌酐|甲功)[^,，。;；正标范]{0,8}?(?:\d|偏[高低]|[过太很]?[高低](?!版|级|频|要求|于|的)|"
    r"异常|升高|超标|不稳)"
)
_VERDICT = Lazy(
    r"(?:确诊|[诊查]断|初诊|检查|查|筛查|化验|体检|检测|测)(?:出来?|为|是|成|有|患|得了?|了|上|过|:|感染|"
    r"结果|报告|显示|说|发现|提示){1,3}|确诊(?!病例|人数|标准|率|方法|数据|流程|的)|"
    r"患[有了上过]|患(?=[^者儿处方上病][^,，。]{0,12}[病症炎癌瘤])|罹患|身患|染[上了]|感染[了过上]|"
    r"得[了过上]|生了(?=[^,，。]{0,8}[病疮疹癌瘤])|长了(?=[^,，。]{0,8}[瘤疮疹痘癣疣])|"
    r"[有存]?在?遗传(?:性|了)|死于|病逝于|因[^,，。]{1,14}(?:去世|病逝|离世|过世|住院|请假|休学|"
    r"缺[课考席勤]|入院|手术|病假|卧床|休养|休息|停学|退学|就诊|就医)"
)
_OPEN = Lazy(r"患有|患[上了过]|罹患|身患|确诊|被诊断|诊断[出为]")
_CARE = Lazy(
    r"住院(?![部医管系流费登信率病患楼证押金号期统办])|入院|出院(?!流程|手续|系统)|"
    r"[做动开接受完成刚行次后][了过完]?[^,，。的]{0,10}?(?:手术(?![室台刀教器机视])|开刀)|术后|化疗|放疗|"
    r"透析|靶向|移植(?=了|手术|后|术)|搭桥|支架手术|"
    r"(?:正在|一直|长期|每天|每日|天天|定期|按时|需要?|要|得|在|开始|坚持|常年|目前|现在|曾|停止|继续|还|"
    r"按医嘱|偷偷|靠)(?:要|在|都|得|只能|只)?(?:服用|服药|吃药|用药|口服|注射|打针|输液(?![泵瓶器架港])|透析|治疗|"
    r"打胰岛素|吃[^,，。]{1,10}(?:药|片|胶囊|丸|汀|平|林|嗪|西泮|素|洛尔|唑|胺|酯|汤剂|冲剂|"
    r"颗粒)(?![膳材店妆品]))|"
    r"服用(?:[^,，。方说注时]{1,16})|吃(?:了|着|过)?[^,，。不饭]{0,6}(?:抗[^,，。]{1,4}药|安眠药|"
    r"止[痛疼咳泻]药|降[压糖脂]药|退烧药|感冒药|中药|精神类药|避孕药|消炎药)|(?:胰岛素|激素|抗抑郁药|"
    r"安眠药|降压药|降糖药|褪黑素|二甲双胍|布洛芬|阿莫西林|头孢|百忧解|利他林|舍曲林|氟西汀|碳酸锂|"
    r"阿司匹林)(?:治疗|控制|维持|过敏|服|吃|[,，。]|\Z)|"
    r"看(?:了|过)?(?:病|医生|急诊|中医|心理医生|精神科|心理科)|心理(?:咨询|治疗|疏导|干预)|复诊|就诊|就医|"
    r"病假(?!制度|政策|流程|规定|条|天数|类型|、)|病休|休病|抢救(?!数据|文件|文物)|急救(?=了|过来)|送医|(?:做|接受|"
    r"进行|开始|坚持|"
    r"需要?)[^,，。]{0,6}治疗|(?:做|查|拍|约)了?[^,，。]{0,6}(?:穿刺|活检|造影|胃镜|肠镜|核磁|CT|B超|彩超|"
    r"心电图|雾化|理疗|针灸)|ICU|重症监护|挂了?[^,，。]{1,5}科|输液(?![泵瓶器架港])|打点滴|康复(?:训练|治疗)|"
    r"戒[毒酒瘾]|"
    r"打疫苗|献血被"
)
_GAP_STOP = Lazy(
    r"[狗猫](?!毛)|宠物|植物|[鱼兔]|果树|庄稼|关于|项目|产品|任务|平台|工具|应用|程序|网站|功能|研究|教(?!室)|讲|"
    r"写|编|"
    r"学习|学过|在学|读|阅|查阅|"
    r"课|书|论文|项目|系统|科普|知识|专业|卖|开发|设计|了解|想问|问|介绍|题|视频|文章|小说|电影|游戏|新闻|"
    r"预防|(?<!接种)(?<!打)疫苗(?!后)|防治|防[^护]|喜欢|"
    r"从事|处理|应对|负责|专攻|擅长|治疗的|研发|销售|保险|数据|模型|分类|识别|预测|比赛|科(?=的)|"
    r"是[^,，。]{0,6}(?:医|护士|药师|专家|研究)|毕业|公司|医院工作|复习|背|考研|考试|画|翻译|整理|搜|收集|"
    r"准备|没有|没得|并无|无|不(?!能|太|舒|慎|小|幸|得不|断)|担心|害怕|怕|以为|怀疑自己没|假装|扮演|像|"
    r"宁可|防止|避免|讨论|关注|报道|创作|梦见|分享"
)
_TOPIC_AFTER = Lazy(
    r"(?:般|一样|似的|式的?)|[^,，。;；]{0,6}?(?:自测|小程序|应用|软件|量表|互助|社群|机构|产品|热线|平台|"
    r"论文|课题|研究|科普|知识|教材|课件|课程|数据集|数据分析|预测|分类|识别|试题|习题|专科|科室|门诊|"
    r"医院|医生|医师|专家|护士|护理学|疫苗|药企|主题|题材|小说|防治|治疗学|病房|讲座|海报|宣传|文章|综述|"
    r"专业|方向|领域|章节|新闻|"
    r"的(?:症状|治疗|病因|原因|预防|机制|危害|影响|诊断|分类|定义|流行|区别|书|课|资料|人|药理|发病|概念|"
    r"传播)|有哪些|是什么|怎么|如何|吗|(?:患者|病人|人群|儿童|老人|孕妇)(?:的|应|需|要|能|可|饮食|护理|"
    r"管理|如何|怎么))"
)
_TOPIC = Lazy(
    r"科普|论文|教材|课件|教案|试[卷题]|电子病历|抽取|制度|习题|文献|综述|讲[义座稿解]|什么是|有哪些|症状是|如何|"
    r"怎样|"
    r"怎么(?!办)|介绍|写一[篇份个段]|出一[份套道]|(?<!学)生成|总结|翻译|解释|流程|标准|指南|系统|数据|模型|算法|"
    r"案例|小说|剧本|角色|电影|新闻|专业|研究|教授|讲授|教学|课程|医学院|护理学|医学生|药理|开发|设计"
)
_TOPIC_HEAD = Lazy(
    r"区别|怎么|如何|什么|哪[些种个]|吗|建议|方法|病毒|患者|人群|预防|筛查|检测|政策|职责|报销|保险|知识|题"
)
_MACHINE = Lazy(
    r"电脑|系统|代码|程序|服务器|内存|网络|[Bb][Uu][Gg]|漏洞|故障|性能|软件|硬件|数据|接口|电路|汽车|"
    r"车(?!祸)|机器|设备|硬盘|手机|木马|病毒库|问题所在|瓶颈|配置|依赖|泄[漏露]|死锁|编译|日志|报错|"
    r"错[误别]|原因|答案|作弊|抄袭|重复率|查重"
)
_ROLE = Lazy(
    r"(?:是|当|做|名|位|一个|的)[^,，。]{0,8}(?:医生|医师|护士|大夫|药剂?师|咨询师|治疗师|老师|教师|教授|"
    r"研究员|兽医|医学生|记者|作家)"
)
_GOOD = Lazy(
    r"(?:第|冠|亚|季|金|银|铜|奖|名|满分|高分|\d|[一二三四五六七八九十两]+[分个次名]|[优良甲]|A|好|便宜|"
    r"表扬|认可|证书|称号|资格|荣誉|机会|钱|成绩|学位|offer|工作|势|分|空|闲|手|逞|体|宠|道|知|到|出|一)"
)
_NOT_GOT = Lazy(r"[获取赢觉记值懂来做受算晓免舍显变使懒写学听说看吃用养搞管顾离忍过玩干跑打卖赚拿考弄玩抽见走去买]\Z")
# What else a person can have: looked for at the end of a clause only, right behind 有 or 得了.
_BODY = (
    r"(?:心脏|心肌|[肝肾肺脾胃]部?脏?|肠|脑(?![洞筋图子机海力])|骨头?|胆囊?|胰腺|甲状腺|乳腺|前列腺|"
    r"子宫(?:内膜)?|卵巢|宫颈|视网膜|角膜|眼[睛底]|耳朵|鼻[子窦]|喉咙|嗓子|扁桃体|"
    r"牙[龈齿]?|颈椎|腰椎?|膝盖|关节|半月板|韧带|皮肤|血管|羊水|胎[盘位]|阑尾|淋巴结?|输卵管|精子|声带|"
    r"脊[柱椎]|神经(?!网)|肌肉|跟腱|脚踝|手腕|肩膀|内分泌|免疫力|智齿|包皮|白细胞|血小板|血红蛋白|凝血)"
)
_AILING = Lazy(
    rf"{_BODY}[^,，。;；、的]{{0,5}}?(?:不[好行适]|发炎|切除|切了|割了|摘除|置换|移植|脱落|偏[少多高低大小]|异[常位]|"
    r"有问题|出问题|受损|敏感|疏松|衰退|出血|下垂|脱离|病变|不齐|坏死|钙化|增厚|变性|畸形|错位|损伤|断裂|"
    r"拉伤|扭伤|劳损|结节|囊肿|只有\d|[:是]\d)"
)
_DRUG = Lazy(
    r"(?:吃|服|用|开了?|打|涂|喷|停了?)(?:着|过|的)?[^,，。;；]{0,5}?[\u4e00-\u9fff]{1,4}(?:洛芬|拉唑|"
    r"沙坦|他汀|洛尔|地平|普利|西林|霉素|沙星|西汀|舍曲林|拉法辛|西泮|唑仑|氮平|双胍|酸锂|地尔|替尼|单抗|"
    r"奈德|米松|尼松|甲乐|维A酸|哌醇|拉嗪|西酞普兰|必妥|司匹林|法林|格列|专注达|择思达|头孢|激素|药膏|胰岛素)"
)
_HAVING = Lazy(
    r"(?:有|得了|得过|长了|犯了|出现|因为?|由于)(?P<what>[^,，。;；、的]{1,20}?)(?=[,，。;；、]|(?:住院|"
    r"请假|休学|缺课|缺考|入院|去世)|\Z)"
)
_BROAD = Lazy(
    r"(?:厥|发作|[上下唇腭]裂|裂孔|前置|剧吐|软化|[混浑]浊|[暴发性聋]聋|阻生牙|地图舌|消渴|不寐|上亢|"
    r"[壅犯束困][肺脾]|[肾精气血津]+不足|[掌屑头]风|粉刺|胎盘|[毛食乳物]癖|[热石劳膏气血]淋|[诸病]证|"
    r"[原激敏异]反应|焦虑|"
    r"[翻蹄弓平]足|[并多缺]指|[囊孤蹄绵走]立?肾|[脓漏鸡]胸|弛缓|憩室|[脉内眼颅]高?压|[房缓早]发育|"
    r"[归咬挛咽Q]热|虱|火丹|[暑春湿风冬]温|伏暑|鼻[渊鼽衄]|乳[蛾核岩]|暴聋|鼓胀|"
    r"[厥郁痉颤汗喘血淋脱闭狂]证|崩漏|带下|滑胎|"
    r"子痫|丹毒|夜啼|肛[裂漏]|脱肛|斜颈|鸡胸|漏斗胸|[蹄弓内外]足|[内外]翻|"
    r"[多电挤冻烧烫咬刺枪刀压击摔扭拉]伤|溺水|窒息|"
    r"早产|难产|死胎|葡萄胎|妊娠|闭经|绝经|早衰|异位|多囊|包茎|包皮过长|隐睾|[少弱无]精|尿崩|下垂|"
    r"[囊蹄绵走]肾|潴留|扭转|巨结肠|龋齿?|蛀牙|口吃|结巴|夜惊|梦游|倒睫|脱离|飞蚊|老花眼?|夜盲|偏曲|出血|"
    r"小结|"
    r"缺[血氧铁钙锌碘]|供血不足|营养不良|佝偻|矮小|低[钾钠钙磷镁]|(?:血小板|白细胞|粒细胞|红细胞|"
    r"淋巴细胞)(?:减少|增多|缺乏)|[肝脾心脏节]肿?大|填塞|过[速缓]|阻滞|缩窄|未闭|四联|转位|气胸|血胸|不张|"
    r"气肿|大疱|扩张|[矽尘]肺|咯血|"
    r"脑疝|空洞|脊柱裂|脓肿|[瘀出]斑|疏松|骨刺|滑脱|抽筋|梗阻|反流|缺乏|紊乱|失调|不调|失常|溢[液乳]|白化|"
    r"早搏|期前收缩|穿孔|破裂|狭窄|损伤|断裂|移位|突出|不全|亢进|减退|衰弱|粘连|嵌顿|栓塞|血栓|结石|"
    r"[^无]障碍|综合[症征]|畸形|变性|坏死|"
    r"[疼痛痒麻胀晕]|[虚寒]|[^性]功能低下|弯曲|不齐|劳损|异物|瘀[血滞]|上火|过劳|休克|先兆|妄想|幻觉|谵妄|"
    r"木僵|失语|失认|失用|遗忘|昏睡|嗜睡|多汗|盗汗|自汗|多毛|秃|斑|痣|瘢|茧|甲癣|狐臭|腋臭|口臭|溃疡|红肿|"
    r"肿|臌|疸|噎膈|呃逆|反酸|嗳气)\Z"
)
# What tells of something that happened to somebody, where nobody is named: 昨天打球把手指弄骨折了.
_NARRATED = Lazy(
    r"了(?=[,，、 ]|\Z)|最近|昨[天晚夜]|前[天阵]|上[周月个]|去年|今[天早]|这[几两]天|一直|反复|又犯|犯了|复发|多年|"
    r"从小|年前|请假|医生[说让建]|"
    r"住院|吃药|[疼痛痒]得?|难受|没法|不能|不敢|睡不|起不|走不|让[我他她]|出现|半夜|整晚|打了?石膏"
)
_ASIDE = Lazy(
    r"\A(?:[一二两三几多\d]+[个本门份位名篇条项种点次所张台套家间]|[个些本])|想法|问题要|需求|业务|时间|办法|经验|"
    r"兴趣|计划|作业|课|书|钱|空|事|"
    r"意见|差异|优势|机会|信心|负担|数据|文件"
)
_BESIDE = Lazy(
    r"(?:病|家族|过敏|手术|住院)?史(?![书料学记])|(?:再次|又|急性|突然)?发作|复发|[晚早中]期|术后|住院|"
    r"请假|休学|缺[课考席]|康复|恢复期|恶化|加重|好转|后遗症|犯了|三期|[ⅠⅡIV]+期|"
    r"[\d一二三四五六七八九十两]+(?:年|个月|周|天)(?:了|前)"
)
_SICK_OF = Lazy(
    r"(?:\A|[,，、:])\s*(?:有|患|得|曾|从小|自幼|自小|天生|先天|长期|常年|最近|近期|一直|经常|总是|确|因|"
    r"因为|由于|又|对|孕|轻度|中度|重度|慢性|急性)[^,，。]{0,10}\Z"
)
_ABSENT = ("住院", "入院", "手术", "病假", "就诊", "病逝")
_LATELY = "去今前年昨天上个月最近期小时候也就还曾经都一直刚又已 "
_PEOPLE = Lazy(r"的(?:人|患者|人群|儿童|老人|孕妇|病人)")
_BEING = Lazy(r"[是为成]一?[个名位]?[^,，。的]{0,10}\Z")
_PATIENT = Lazy(r"患者|病人|携带者|幸存者")
_QUOTED = Lazy("翻译|造句|例句|成语")
_NEVER = Lazy(r"(?:没有|没|无|未|并非|不是|否认)[^,，。]{0,4}\Z")
_FIGURE = Lazy(r"翻译|造句|例句|成语|(?:让|令|使|叫)[^,，。]{0,6}\Z|问题|需求|代码|作业(?=[^,，。]{0,6}头)")
_TURN = Lazy(r"[,，。、;；:()（）\s]|但是?|不过|而且|并且|同时|另外|然而|加上")
_PUNCT = Lazy(r"[,，。、;；:()（）\s]")


def find(page: Page) -> Iterator[Finding]:
    """Yields what is told of somebody's health in Chinese; topics, papers, machines and professions are left."""
    for match, weigh in ration(_VERDICT.finditer(page.text)):
        end = _verdict(page, match) if weigh else match.end()
        if end:
            yield page.finding("health", match.start(), end)
    for match, weigh in ration(_TERM.finditer(page.text)):
        start = _tied(page, match) if weigh else match.start()
        if start >= 0:
            yield page.finding("health", start, match.end())
    for match, weigh in ration(_HAVING.finditer(page.text)):
        if not weigh or _has(page, match):
            yield page.finding("health", match.start("what"), match.end("what"))
    for pattern in (_STATE, _CARE, _DRUG, _AILING):
        for match, weigh in ration(pattern.finditer(page.text)):
            if not weigh or _lived(page, match):
                yield page.finding("health", match.start(), match.end())


def _gap_to_person(lead: str) -> str | None:
    """Returns what stands between the last person of `lead` and its end; None without a person."""
    gap = None
    for person in _PERSON.finditer(lead):
        gap = lead[person.end() :]
    return gap


def _verdict(page: Page, match: re.Match[str]) -> int:
    """Returns where a verdict's object ends, 0 where it is no verdict about somebody's health."""
    rest = page.after(match.end(), 24)
    stop = _PUNCT.search(rest)
    thing = rest[: stop.start()] if stop else rest
    return match.end() + len(thing) if _is_verdict(page.before(match.start(), 30), match[0], thing, rest) else 0


def _is_verdict(lead: str, said: str, thing: str, rest: str) -> bool:
    gap = _gap_to_person(lead)
    if _MACHINE.search(lead[-12:] + said + thing[:12]) or _QUOTED.search(lead) or (gap and _GAP_STOP.match(gap)):
        return False
    if _TOPIC.search(lead + thing) and (gap is None or not _OPEN.search(said)):
        return False
    if said.startswith("因"):
        return _TERM.search(said) is not None or said.endswith(_ABSENT)
    # 感染 names an illness only together with what is caught: a team can be 感染 with joy.
    named = _TERM.search(thing) if said.startswith("感染") else _TERM.search(said + thing)
    if _OPEN.search(lead[-1:] + said):
        general = gap is None and _PEOPLE.search(thing)
        return not general and (named is not None or not _ROLE.search(lead))
    if said.startswith("得"):
        plain = _NOT_GOT.search(lead) or _GOOD.match(thing)
        told = gap is not None and not gap.strip(_LATELY) and len(thing) >= 2
        return not plain and (named is not None or told)
    return named is not None and not _TOPIC_AFTER.match((said + rest)[named.end() :])


def _tied(page: Page, match: re.Match[str]) -> int:
    """Returns where the telling of a disease begins when something ties it to a person, else -1."""
    lead, rest = page.before(match.start(), 30), page.after(match.end(), 20)
    clause = _TURN.split(lead)[-1]
    if _MACHINE.search(clause) or _NEVER.search(lead) or _FIGURE.search(clause) or _QUOTED.search(lead + rest):
        return -1
    if _PATIENT.match(rest) and _BEING.search(lead) and not _TOPIC.search(lead):
        return match.start() - len(clause)
    if _TOPIC_AFTER.match(rest):
        return -1
    gap = _gap_to_person(lead)
    if gap is not None and len(gap) <= 18 and not _GAP_STOP.search(gap):
        return match.start() - len(gap)
    untold = _TOPIC.search(lead + rest) or _GAP_STOP.search(clause)
    narrated = gap is None and not _TOPIC_HEAD.search(lead + rest) and _NARRATED.search(lead + match[0] + rest)
    beside = _BESIDE.match(rest) or _SICK_OF.match(clause) or narrated
    return match.start() - len(clause) if beside and not untold else -1


def _lived(page: Page, match: re.Match[str]) -> bool:
    """Says whether a state or a treatment is somebody's own: a person before it, or no topic anywhere near."""
    lead, rest = page.before(match.start(), 30), page.after(match.end(), 16)
    if _MACHINE.search(lead[-14:] + match[0]) or _NEVER.search(lead) or _ROLE.search(lead + match[0] + rest):
        return False
    gap = _gap_to_person(lead)
    if gap is not None:
        if _GAP_STOP.search(_TURN.split(gap)[-1]):
            return False
        return not _TOPIC_AFTER.match(rest)
    return not _TOPIC.search(lead + match[0] + rest) and not _TOPIC_AFTER.match(rest)


def _has(page: Page, match: re.Match[str]) -> bool:
    """Says whether a person right before 有 or 得了 has what ends like an ailment and is no plain thing."""
    gap = _gap_to_person(page.before(match.start(), 20))
    what = match["what"]
    if (
        gap is None
        or len(gap) > 8
        or _GAP_STOP.search(gap)
        or _ASIDE.search(what)
        or _GAP_STOP.search(what.replace("不", ""))
    ):
        return False
    return _BROAD.search(what) is not None and not _MACHINE.search(what)
