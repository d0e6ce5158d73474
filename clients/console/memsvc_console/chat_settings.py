"""What the chat of the console needs: a model, and the credential of a runner. Without them it is not offered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

MAX_PRICE = 10**12


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """An OpenAI-compatible endpoint, and how runs are recorded.

    - `base_url` ends where /chat/completions begins; `model` is sent along; `api_key` is empty where none is needed.
    - `provider`: the endpoint's name in the daemon's settings. Memory's own calls for these conversations go there.
    - prices: millionths of the deployment's currency for a million tokens, for the cost that is recorded.
    - `runner_token`: of the runner's role, empty for a daemon without credentials.
    """

    base_url: str = ""
    model: str = ""
    api_key: str = field(default="", repr=False)
    provider: str = ""
    input_price: int = 0
    output_price: int = 0
    runner_token: str = field(default="", repr=False)

    @property
    def has_model(self) -> bool:
        """Whether there is somebody to talk to."""
        return bool(self.base_url and self.model)

    def cost_micros(self, input_tokens: int, output_tokens: int) -> int:
        """What a call costs, rounded half up."""
        price = input_tokens * self.input_price + output_tokens * self.output_price
        return (price + 500_000) // 1_000_000


def read_chat(values: Mapping[str, str], environ: Mapping[str, str], secret: Callable[[str, str], str]) -> ChatSettings:
    """Reads the settings, of names without the console's prefix; ValueError names the one that is wrong and why.

    `secret(name, path)` reads the file of a secret.
    """
    base_url = values.get("CHAT_BASE_URL", "").rstrip("/")
    if base_url and (urlsplit(base_url).scheme not in {"http", "https"} or not urlsplit(base_url).hostname):
        raise ValueError("CHAT_BASE_URL: must be a URL, as http://127.0.0.1:11434/v1")
    key_name = values.get("CHAT_API_KEY_ENV", "")
    api_key = environ.get(key_name, "").strip() if key_name else ""
    if key_name and (not api_key or not api_key.isascii() or not api_key.isprintable()):
        raise ValueError("CHAT_API_KEY_ENV: the variable that it names holds no key")
    return ChatSettings(
        base_url=base_url,
        model=values.get("CHAT_MODEL", "").strip(),
        api_key=api_key,
        provider=values.get("CHAT_PROVIDER", "").strip(),
        input_price=_price(values, "CHAT_INPUT_PRICE"),
        output_price=_price(values, "CHAT_OUTPUT_PRICE"),
        runner_token=secret("RUNNER_TOKEN_FILE", values.get("RUNNER_TOKEN_FILE", "")),
    )


def _price(values: Mapping[str, str], name: str) -> int:
    text = values.get(name, "0")
    if not (text.isascii() and text.isdecimal() and len(text) <= 13 and int(text) <= MAX_PRICE):
        raise ValueError(f"{name}: must be a whole number, millionths of the currency for a million tokens")
    return int(text)
