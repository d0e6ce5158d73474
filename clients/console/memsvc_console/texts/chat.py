"""What the chat says, and the page that tells how to make it work."""

TEXTS: dict[str, tuple[str, str]] = {
    "chat.new": ("新建会话", "New conversation"),
    "chat.with": ("和 {model} 聊聊，它记得住。", "Talk to {model}; it remembers."),
    "chat.thread": ("查看会话", "See the conversation"),
    "chat.you": ("您", "You"),
    "chat.agent": ("助手", "Agent"),
    "chat.say": ("要说的话", "What you say"),
    "chat.say.hint": (
        "说点什么。Enter 发送，Shift+Enter 换行",
        "Say something. Enter sends, Shift+Enter breaks the line",
    ),
    "chat.send": ("发送", "Send"),
    "chat.stop": ("停止", "Stop"),
    "chat.nothing": ("（没有内容）", "(nothing)"),
    "chat.whole": ("看全文", "See all of it"),
    "chat.context": ("记忆 {n} token", "{n} token of memory|{n} tokens of memory"),
    "chat.usage": ("读 {read} · 写 {wrote} token", "{read} tokens read · {wrote} written"),
    "chat.earlier": ("更早还有 {n} 轮", "One earlier turn|{n} earlier turns"),
    "chat.failed": ("这一轮没有成功", "This turn did not succeed"),
    "chat.failed.do": (
        "它已记为失败，不会再给模型看。请稍后重试，或核对 MEMSVC_CONSOLE_CHAT_* 的设置。",
        "It is recorded as failed and never shown to a model. Try again, or check MEMSVC_CONSOLE_CHAT_*.",
    ),
    "chat.lost": (
        "与记忆台的连接断了。说到一半的回答已记为中止，请刷新页面。",
        "The connection to the console broke. What there was of the answer is recorded as stopped; reload the page.",
    ),
    "chat.empty": ("一分钟看懂记忆", "See memory work within a minute"),
    "chat.step.1": (
        "说一件关于您的事，例如“我教高二，试卷总是 60 分钟”。",
        "Tell it something about you, such as “I teach year 11, and my tests always take an hour”.",
    ),
    "chat.step.2": (
        "再聊三四轮。右侧会出现摘要和待确认的事实，确认一条。",
        "Talk for three or four turns. A summary and proposed facts appear at the side; confirm one.",
    ),
    "chat.step.3": (
        "新建会话，问“出一份卷子”：它已经知道您是谁。",
        "Begin a new conversation and ask for a test: it knows who you are.",
    ),
    "chat.remembered": ("记住了什么", "What is remembered"),
    "chat.working": ("整理中", "at work"),
    "chat.trouble": ("有工作没做成", "some work failed"),
    "chat.summary": ("前情摘要", "Summary"),
    "chat.summary.none": (
        "超过两轮之后，较早的轮次会折成摘要。",
        "After more than two turns the earlier ones are folded into one.",
    ),
    "chat.facts": ("事实", "Facts"),
    "chat.facts.count": ("已确认 {n} / {capacity}", "{n} of {capacity} confirmed"),
    "chat.facts.none": (
        "模型会提出值得长期记住的事实，由您确认才算数。",
        "The model proposes what is worth keeping; nothing counts before you confirm it.",
    ),
    "chat.facts.see": ("查看已确认的事实", "See the confirmed facts"),
    "chat.proposed": ("待确认", "proposed"),
    "chat.decide": ("去确认", "Decide"),
    "chat.given": ("这一轮给了它什么", "What it was given"),
    "chat.given.none": (
        "说完一句，这里会显示智能体读到的记忆。",
        "Once you have said something, what the agent read of memory stands here.",
    ),
    "chat.inspect": ("在“上下文”页细看", "Look closer on the Context page"),
    "chat.setup": ("还不能对话", "Chat is not set up"),
    "chat.setup.lead": (
        "对话需要一个模型，以及运行者（runner）的令牌。设好下面各项，再启动记忆台。",
        "It needs a model, and the token of a runner. Set what is missing and start the console again.",
    ),
    "chat.setup.example": ("例如，用本机的 Ollama", "With a local Ollama, for instance"),
    "chat.setup.more": (
        "密钥放在环境变量里，用 MEMSVC_CONSOLE_CHAT_API_KEY_ENV 指出它的名字；MEMSVC_CONSOLE_CHAT_PROVIDER 是该模型在 memsvc.toml 里的名字，"
        "记忆整理也会交给它；MEMSVC_CONSOLE_CHAT_INPUT_PRICE 与 _OUTPUT_PRICE 是每百万 token 的单价（货币的百万分之一）。",
        "Put a key into an environment variable and name that in MEMSVC_CONSOLE_CHAT_API_KEY_ENV. "
        "MEMSVC_CONSOLE_CHAT_PROVIDER is the endpoint's name in memsvc.toml; memory's work goes there too. "
        "MEMSVC_CONSOLE_CHAT_INPUT_PRICE and _OUTPUT_PRICE are millionths of the currency for a million tokens.",
    ),
    "chat.need.set": ("已设", "set"),
    "chat.need.missing": ("未设", "missing"),
    "chat.need.CHAT_BASE_URL": (
        "OpenAI 兼容接口的地址，到 /chat/completions 之前为止",
        "address of an OpenAI-compatible endpoint, up to /chat/completions",
    ),
    "chat.need.CHAT_MODEL": ("模型的名字", "the model's name"),
    "chat.need.RUNNER_TOKEN_FILE": (
        "存放运行者令牌的文件：审阅者的令牌只用来看和决定",
        "file with a runner's token: the reviewer's is for looking and deciding only",
    ),
}
