"""The only caller of a model, and the only module that opens a socket outward: to the configured addresses
and nowhere else, with a deadline, a size and a price on every call. Whatever a provider does, the caller
gets a `Reply` or a `CallFailed` whose reason is a word of ours and never one of theirs.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from memsvc.model import Usage
from memsvc.rules import completion
from memsvc.rules.provider import ProviderFacts

if TYPE_CHECKING:
    import httpx2
    import openai

MAX_REFUSED = 1_000
"""Pieces of work whose refusals are remembered; of more, the longest known are forgotten and count anew."""

MAX_ALONE_S = 3_600.0
"""Longest time, in seconds, for which work whose answers stay of no use leaves a provider alone. They cost what
others cost, and the same question seldom gets a better one."""

THINKING_FACTOR = 4
"""How many times the tokens of an answer a model may take that spends them on thinking first. What it thinks is counted
as its output, and of the room for the answer alone nothing would be left for the answer."""

MAX_ANSWER_BYTES = 1 << 20
"""More than this is not read. What may become a summary is judged elsewhere, and is far smaller."""

_MAX_COST_MICROS = 2**53
_MAX_RETRY_AFTER_MS = 600_000

TIMEOUT = "PROVIDER_TIMEOUT"
UNREACHABLE = "PROVIDER_UNREACHABLE"
RATE_LIMITED = "PROVIDER_RATE_LIMITED"
UNAUTHORIZED = "PROVIDER_UNAUTHORIZED"
BAD_ANSWER = "PROVIDER_BAD_ANSWER"
TOO_LARGE = "PROVIDER_ANSWER_TOO_LARGE"
KEY_MISSING = "PROVIDER_KEY_MISSING"
KEY_MALFORMED = "PROVIDER_KEY_MALFORMED"
LEFT_ALONE = "PROVIDER_LEFT_ALONE"


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """An OpenAI-compatible endpoint as the operator configured it.

    `base_url` ends where `/chat/completions` begins. `local` promises that the words stay on machines of
    the deployment. `api_key_env` names the environment variable of the key; empty means that none is
    needed. Prices are in millionths of the deployment's currency for a million tokens.
    """

    name: str
    base_url: str
    model: str
    local: bool = False
    api_key_env: str = ""
    input_price_micros_per_million: int = 0
    output_price_micros_per_million: int = 0

    def cost(self, input_tokens: int, output_tokens: int) -> Usage:
        """Prices tokens, in whole millionths of the currency, rounded half up."""
        price = (
            input_tokens * self.input_price_micros_per_million + output_tokens * self.output_price_micros_per_million
        )
        return Usage(input_tokens, output_tokens, min((price + 500_000) // 1_000_000, _MAX_COST_MICROS))


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said, not judged yet: `text` may be empty or nonsense, but holds no lone surrogate and
    none of the model's thinking aloud. `truncated` says that it did not come to its end: the limit of its
    output or the provider's filter stopped it.
    """

    text: str
    usage: Usage
    duration_ms: int
    model: str
    truncated: bool = False


class CallFailed(Exception):  # noqa: N818  the name says it already
    """A call that came to nothing. No error of the wire: a job catches it, records the attempt and tries
    again.

    `usage` is what the provider reported all the same, `retry_after_ms` how long it asked to be spared (0:
    it did not say; never more than ten minutes).
    """

    def __init__(
        self,
        reason: str,
        usage: Usage = Usage(),  # noqa: B008  frozen
        duration_ms: int = 0,
        model: str = "",
        retry_after_ms: int = 0,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.usage = usage
        self.duration_ms = duration_ms
        self.model = model
        self.retry_after_ms = retry_after_ms


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """How a provider fares. `retry_in_ms` is set while it is left alone; a missing key waits for no clock."""

    name: str
    local: bool
    usable: bool
    last_error_reason: str
    retry_in_ms: int | None


@dataclass(slots=True)
class _Circuit:
    """Failures in a row, and until when that is reason enough to leave the provider alone."""

    failures: int = 0
    failures_before: int = 0
    alone_until: float = 0.0
    last_reason: str = ""


class Models:
    """The configured providers, each with one client and one circuit, both made when first needed.

    After `circuit_failures` failures in a row a provider is not usable for `circuit_ms`; then one more
    failure is enough to be left alone again, and one success clears it. An answer that is of no use says
    as much about what was asked as about who was: asked for the same work again it counts no second time,
    and the provider is left alone for that work only, twice as long each time up to `MAX_ALONE_S`. `clock`
    gives seconds that never step back.
    """

    def __init__(
        self,
        providers: Sequence[ProviderConfig],
        *,
        environ: Mapping[str, str],
        deadline_ms: int = 60_000,
        circuit_failures: int = 3,
        circuit_ms: int = 30_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._configs = {p.name: p for p in providers}
        self._circuits = {p.name: _Circuit() for p in providers}
        self._refused: dict[tuple[str, Hashable], _Circuit] = {}
        self._clients: dict[str, openai.AsyncOpenAI] = {}
        self._thinking: set[str] = set()
        self._opening = asyncio.Lock()
        self._environ = environ
        self._deadline_s = deadline_ms / 1000
        self._circuit_failures = circuit_failures
        self._circuit_s = circuit_ms / 1000
        self._clock = clock

    async def call(self, name: str, system: str, user: str, max_output_tokens: int) -> Reply:
        """Asks the provider `name` once. Raises `CallFailed`; a name that is not configured is a bug
        (KeyError).

        The deadline holds for the whole call, however the answer drips. A cancelled call says nothing about
        the provider and leaves its circuit as it was. A model that used up `max_output_tokens` and said next to
        nothing is known to think, and has `THINKING_FACTOR` times as many from the next call on.
        """
        config = self._configs[name]
        key, reason = _key(config, self._environ)
        if reason:
            raise CallFailed(reason, model=config.model)
        async with self._opening:
            if name not in self._clients:
                # Importing the SDK takes most of a second, which the event loop has no time for.
                self._clients[name] = await asyncio.to_thread(_open_client, config, key)
        start = self._clock()
        usage = Usage()
        limit = max_output_tokens * (THINKING_FACTOR if name in self._thinking else 1)
        try:
            try:
                async with asyncio.timeout(self._deadline_s):
                    body = await _ask(self._clients[name], config.model, system, user, limit)
            except TimeoutError:
                raise CallFailed(TIMEOUT) from None
            answer = completion.decode(body)
            if answer is not None:
                usage = config.cost(*completion.tokens(answer))
            if answer is None or (said := completion.content(answer)) is None:
                raise CallFailed(BAD_ANSWER)
            text, truncated = said
            if completion.ran_out(answer) and len(text) < max_output_tokens // 2:
                self._thinking.add(name)
        except CallFailed as failure:
            self._failed(self._circuits[name], failure.reason)
            raise CallFailed(
                failure.reason, usage, self._since_ms(start), config.model, failure.retry_after_ms
            ) from None
        circuit = self._circuits[name]
        circuit.failures_before, circuit.failures, circuit.last_reason = circuit.failures, 0, ""
        return Reply(text, usage, self._since_ms(start), config.model, truncated)

    def cost(self, name: str, input_tokens: int, output_tokens: int) -> Usage:
        """Prices tokens as the provider `name` does."""
        return self._configs[name].cost(input_tokens, output_tokens)

    def reject(self, name: str, reason: str, about: Hashable) -> None:
        """Takes back that the last call of `name` succeeded: its answer was of no use, for `reason`.

        `about` is the work that it was to do; until `accept` is told of it, its refusals are in a row.
        """
        circuit = self._circuits[name]
        circuit.failures = circuit.failures_before
        if (name, about) in self._refused:
            circuit.last_reason = reason
        else:
            self._failed(circuit, reason)
            while len(self._refused) >= MAX_REFUSED:
                del self._refused[next(iter(self._refused))]
        self._failed(self._refused.setdefault((name, about), _Circuit()), reason, MAX_ALONE_S)

    def accept(self, name: str, about: Hashable) -> None:
        """Hears that the last answer of `name` did the work."""
        self._refused.pop((name, about), None)

    def facts(self, about: Hashable = None) -> dict[str, ProviderFacts]:
        """The providers as `rules.provider.choose` wants to know them for a piece of work, at this moment."""
        facts = {}
        for name, config in self._configs.items():
            reason = _key(config, self._environ)[1]
            if not reason and self.alone_ms(name, about):
                reason = LEFT_ALONE
            facts[name] = ProviderFacts(name, config.local, not reason, reason)
        return facts

    def statuses(self) -> list[ProviderStatus]:
        """How each provider fares, in the order of the configuration."""
        statuses = []
        for name, fact in self.facts().items():
            circuit = self._circuits[name]
            waits = fact.reason == LEFT_ALONE
            retry_in_ms = self.alone_ms(name) if waits else None
            last = circuit.last_reason if waits or fact.usable else fact.reason
            statuses.append(ProviderStatus(name, fact.local, fact.usable, last, retry_in_ms))
        return statuses

    def alone_ms(self, name: str, about: Hashable = None) -> int:
        """Returns for how long a provider is left alone, by all or by a piece of work; 0 where it is not."""
        circuits = (self._circuits[name], self._refused.get((name, about), _Circuit()))
        return max(0, math.ceil((max(circuit.alone_until for circuit in circuits) - self._clock()) * 1000))

    async def close(self) -> None:
        """Closes the connections. The clients come back when a call asks for one."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.close()

    def _failed(self, circuit: _Circuit, reason: str, doubling_to_s: float = 0.0) -> None:
        circuit.failures += 1
        circuit.last_reason = reason
        beyond = circuit.failures - self._circuit_failures
        if beyond >= 0:
            longer_s = min(self._circuit_s * 2.0 ** min(beyond, 30), doubling_to_s)
            circuit.alone_until = self._clock() + max(self._circuit_s, longer_s)

    def _since_ms(self, start: float) -> int:
        return round((self._clock() - start) * 1000)


def _key(config: ProviderConfig, environ: Mapping[str, str]) -> tuple[str, str]:
    """The key and why there is none to be had; both empty where none is needed."""
    if not config.api_key_env:
        return "", ""
    key = environ.get(config.api_key_env, "").strip()
    if not key:
        return "", KEY_MISSING
    if not (key.isascii() and key.isprintable()):
        return "", KEY_MALFORMED
    return key, ""


# What a request carries. The SDK adds a description of this machine, and whatever OPENAI_ORG_ID,
# OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS happen to hold, to every provider alike.
# x-stainless-raw-response is how the SDK tells itself that the body is not its to read.
_SENT_HEADERS = frozenset(
    {"host", "connection", "accept", "content-type", "content-length", "x-stainless-raw-response"}
)


def _open_client(config: ProviderConfig, key: str) -> openai.AsyncOpenAI:
    """Builds a client for this address alone. Slow: it imports the SDK."""
    import httpx2  # noqa: PLC0415
    import openai  # noqa: PLC0415

    async def trim(request: httpx2.Request) -> None:
        for name in set(request.headers) - _SENT_HEADERS:
            del request.headers[name]
        request.headers["accept-encoding"] = "identity"
        request.headers["user-agent"] = "memsvc"
        if key:
            request.headers["authorization"] = f"Bearer {key}"

    async def check(response: httpx2.Response) -> None:
        # Before the body is read: the SDK would read that of an error whole, however large, to quote it.
        if response.status_code != 200:
            raise _refusal(response.status_code, response.headers.get("retry-after", ""))
        if response.headers.get("content-encoding", "identity") != "identity":
            raise CallFailed(BAD_ANSWER)  # Not what was accepted, and a small one can unpack into a large one.

    # Words for a local provider must not pass a proxy that somebody exported for the way to the internet.
    host = urlsplit(config.base_url).hostname or ""
    direct = config.local or host in {"localhost", "::1"} or host.startswith("127.")
    client = httpx2.AsyncClient(
        event_hooks={"request": [trim], "response": [check]},
        follow_redirects=False,
        timeout=None,  # `Models.call` has one deadline for all of it.
        trust_env=not direct,
    )
    return openai.AsyncOpenAI(
        api_key=key or "none", base_url=config.base_url, max_retries=0, timeout=None, http_client=client
    )


def _refusal(status: int, retry_after: str) -> CallFailed:
    if status == 429:
        # Nine digits: more say the same, and int() itself refuses thousands of them.
        seconds = int(retry_after[:9]) if retry_after.isascii() and retry_after.isdigit() else 0
        return CallFailed(RATE_LIMITED, retry_after_ms=min(seconds * 1000, _MAX_RETRY_AFTER_MS))
    if status in (401, 403):
        return CallFailed(UNAUTHORIZED)
    return CallFailed(f"PROVIDER_STATUS_{status}")


async def _ask(client: openai.AsyncOpenAI, model: str, system: str, user: str, max_output_tokens: int) -> bytes:
    """Returns the answer's bytes, at most `MAX_ANSWER_BYTES`; raises `CallFailed`.

    The body is read here and not by the SDK, which knows no bound. `max_tokens` and not its successor:
    Ollama, vLLM, llama.cpp and DashScope all know it.
    """
    import httpx2  # noqa: PLC0415
    import openai  # noqa: PLC0415

    body = bytearray()
    try:
        async with client.chat.completions.with_streaming_response.create(
            model=model,
            messages=[{"role": "system", "content": system}, {"role": "user", "content": user}],
            max_tokens=max_output_tokens,
            temperature=0,
            stream=False,
        ) as response:
            async for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise CallFailed(TOO_LARGE)
    except openai.APIConnectionError as error:
        connected = isinstance(error.__cause__, httpx2.RequestError) and not isinstance(
            error.__cause__, httpx2.ConnectError
        )
        raise CallFailed(BAD_ANSWER if connected else UNREACHABLE) from None
    except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError):
        raise CallFailed(BAD_ANSWER) from None
    return bytes(body)
