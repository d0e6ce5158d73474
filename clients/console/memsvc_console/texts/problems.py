"""What went wrong and what to do about it, by the reason that the daemon or the console gives."""

TEXTS: dict[str, tuple[str, str]] = {
    "problem.retry": ("重试", "Try again"),
    "problem.home": ("回到首页", "To the start"),
    "problem.reason": ("原因代码", "Reason"),
    "problem.unavailable": ("连不上记忆服务", "The daemon does not answer"),
    "problem.unavailable.do": (
        "在 {daemon} 上没有记忆服务应答。请用 `memsvc serve` 启动它，或核对 MEMSVC_CONSOLE_DAEMON，再重试。您的数据都在，什么也没丢。",
        "No memsvc answers at {daemon}. Start it with `memsvc serve`, or check MEMSVC_CONSOLE_DAEMON, and try again. "
        "Nothing is lost.",
    ),
    "problem.deadline": ("等了太久", "No answer in time"),
    "problem.deadline.do": (
        "记忆服务没有及时答复，刚才的操作可能已经生效。请刷新看看，再决定是否重做。",
        "The daemon did not answer in time; what you did may have taken effect. Look again before you repeat it.",
    ),
    "problem.unauthenticated": ("凭证无效", "The credential is not known"),
    "problem.unauthenticated.do": (
        "记忆服务不认识控制台的令牌。请让 MEMSVC_CONSOLE_TOKEN_FILE 指向审阅者（reviewer）的令牌文件，然后重启控制台。",
        "The daemon does not know the console's token. Point MEMSVC_CONSOLE_TOKEN_FILE at a reviewer's token and restart "
        "the console.",
    ),
    "problem.role": ("权限不够", "The role is too low"),
    "problem.role.do": (
        "此操作需要更高的角色。控制台应持有审阅者（reviewer）的令牌，而不是运行者（runner）的。",
        "This needs a higher role. The console should hold a reviewer's token, not a runner's.",
    ),
    "problem.scope": ("看不到这份记忆", "This memory is out of reach"),
    "problem.scope.do": (
        "控制台的令牌不能代表这个租户。请换一份记忆，或换一个覆盖该租户的令牌。",
        "The console's token does not speak for this tenant. Choose another memory, or a token that covers the tenant.",
    ),
    "problem.gone": ("已经不在了", "It is no longer there"),
    "problem.gone.do": (
        "它可能刚被别人处理或删除。请刷新后再看。",
        "Somebody may have decided on it or deleted it just now. Reload and look again.",
    ),
    "problem.busy": ("太忙了", "Too busy"),
    "problem.busy.do": (
        "记忆服务同时收到的请求太多，请稍候重试。",
        "The daemon has too many calls at once. Try again in a moment.",
    ),
    "problem.disk": ("磁盘已满", "The disk is full"),
    "problem.disk.do": (
        "记忆服务没有空间可写，什么也没有改。腾出磁盘空间后重试；阅读不受影响。",
        "The daemon has no room to write, and nothing was changed. Make room on its disk and try again; reading goes on.",
    ),
    "problem.redline": ("这条内容不能记住", "This may not be remembered"),
    "problem.redline.do": (
        "红线：记忆里不得保存{category}。请换一种不含这类信息的说法，或不要保存它。",
        "A red line: memory keeps no {category}. Put it without such details, or do not keep it.",
    ),
    "problem.field": ("填写有误", "Something is not filled in right"),
    "problem.field.do": ("记忆服务不接受字段 {field}：{message}", "The daemon refuses the field {field}: {message}"),
    "problem.field.text.do": (
        "请写成一行、一句话，1 到 200 字；不要写得像角色标签、系统标记或上下文的边框。",
        "Write one statement on one line, 1 to 200 characters, and nothing that reads like a role label, a system marker or a frame of the context.",
    ),
    "problem.field.title.do": ("标题须有 1 到 200 个字。", "A title has 1 to 200 characters."),
    "problem.large": ("内容太长", "Too long"),
    "problem.large.do": (
        "字段 {field} 最多 {limit} 字节。请缩短后重试。",
        "The field {field} takes at most {limit} bytes. Shorten it and try again.",
    ),
    "problem.old": ("记忆服务版本太旧", "The daemon is too old"),
    "problem.old.do": ("它不认识这个操作，请升级 memsvc。", "It does not know this call. Upgrade memsvc."),
    "problem.other": ("没有成功", "It did not work"),
    "problem.other.do": ("记忆服务答复：{message}", "The daemon says: {message}"),
    "problem.missing": ("没有这个页面", "There is no such page"),
    "problem.missing.do": (
        "地址可能写错了，或者它已被删除。",
        "The address may be wrong, or what it showed was deleted.",
    ),
    "problem.method": ("不能这样访问", "Not that way"),
    "problem.method.do": ("请从页面上的按钮操作。", "Use the buttons of the pages."),
    "problem.forged": ("请求未被接受", "The request was refused"),
    "problem.forged.do": (
        "它不像是从本页面发出的：页面可能是控制台重启之前打开的，或 Cookie 被关掉了。请刷新页面再做一次。",
        "It does not seem to come from this page: the page may be older than the console's last start, or cookies are off. "
        "Reload the page and do it again.",
    ),
    "problem.host": ("地址不对", "Not this address"),
    "problem.host.do": (
        "控制台只接受它自己的地址。若经由代理访问，请把 MEMSVC_CONSOLE_ORIGIN 设为浏览器里看到的地址。",
        "The console answers to its own address alone. Behind a proxy, set MEMSVC_CONSOLE_ORIGIN to what the browser shows.",
    ),
    "problem.body": ("内容太大", "Too large"),
    "problem.body.do": ("一次最多提交 2 MiB。", "At most 2 MiB can be sent at once."),
    "problem.crashed": ("控制台出错了", "The console failed"),
    "problem.crashed.do": (
        "这是控制台自己的错误，已记入它的日志（不含内容）。请重试；若再次出现，请报告。",
        "This is the console's own fault, and stands in its log (without content). Try again; if it returns, report it.",
    ),
    "category.resident_id": ("证件号码", "identity numbers"),
    "category.passport": ("证件号码", "identity numbers"),
    "category.ssn": ("证件号码", "identity numbers"),
    "category.itin": ("证件号码", "identity numbers"),
    "category.nino": ("证件号码", "identity numbers"),
    "category.nhs": ("证件号码", "identity numbers"),
    "category.aadhaar": ("证件号码", "identity numbers"),
    "category.bank_card": ("银行账户", "bank accounts"),
    "category.iban": ("银行账户", "bank accounts"),
    "category.phone": ("联系方式", "contact details"),
    "category.email": ("联系方式", "contact details"),
    "category.score": ("学生成绩", "grades"),
    "category.health": ("健康信息", "health matters"),
    "category.other": ("敏感个人信息", "sensitive personal data"),
}
