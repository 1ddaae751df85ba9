"""Thousands of varied strings, the same ones every time, for comparing tokenizers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

PROSE = """
the quick brown fox jumps over lazy dogs Zürich naïve café coöperate don't we'll I'M they'RE
GPT-4o HTTPServer snake_case camelCase kebab-case 3.14159 1e-5 0xDEADBEEF 2024-06-30 $1,234.56
antidisestablishmentarianism Donaudampfschifffahrtsgesellschaft e.g. i.e. U.S.A. ... -- — –
"""
WORDS = PROSE.split()
SCRIPTS = (
    "日本語のテキストです。",
    "今天天气很好,我们去公园吧!",
    "안녕하세요 세계",
    "مرحبا بالعالم كيف حالك",
    "שלום עולם",
    "नमस्ते दुनिया",
    "สวัสดีชาวโลก",
    "Привет, как дела?",
    "Γειά σου Κόσμε",
    "Xin chào thế giới",
    "ສະບາຍດີ",
    "Ωmega µ ½ ² ⅷ ４２ ፲",
)
EMOJI = ("🎉", "👩‍👩‍👧‍👦", "🇨🇭", "❤️", "👍🏽", "🏴‍☠️", "😀😃😄", "✅", "1️⃣")
CODE = (
    "def f(x: int) -> str:\n    return f'{x!r}'  # done\n",
    "for (int i = 0; i < n; ++i) {\n\t\ta[i] += b[i] * 2;\n}\n",
    '{"key": [1, 2.5, null, true], "näme": "välue"}',
    "SELECT * FROM t WHERE a >= 10 AND b != 'x';",
    '<div class="a">&nbsp;<br/></div>',
    "#include <vector>\r\nint main() {}\r\n",
    "$ git commit -m \"it's\" && ls | grep -v '^#'",
    "\\frac{a}{b} \\sum_{i=0}^{\\infty} x_i^2",
)
SPACES = (
    " ",
    "  ",
    "   ",
    "    ",
    "\t",
    "\t\t",
    "\n",
    "\n\n",
    "\n\n\n",
    "\r\n",
    " \n ",
    "\u00a0",
    "\u3000",
)
MARKS = "\u0301\u0308\u0323\u200d\ufe0f\u0902\u064b\u0e31"


def varied_texts(count: int, seed: int, extra: Sequence[str] = ()) -> list[str]:
    """`count` texts of every kind below; `extra` are pieces to sprinkle in, such as spellings of
    control tokens."""
    chooser = random.Random(seed)
    kinds: list[Callable[[random.Random], str]] = [
        _words,
        _mixture,
        _digits,
        _white_space,
        _unicode,
        _latin_noise,
        _repeats,
        lambda chooser: chooser.choice(CODE) * chooser.randint(1, 3),
    ]
    texts = []
    for index in range(count):
        text = kinds[index % len(kinds)](chooser)
        if extra and index % 3 == 0:
            place = chooser.randint(0, len(text))
            text = text[:place] + chooser.choice(extra) + text[place:]
        texts.append(text)
    return texts


def _words(chooser: random.Random) -> str:
    return " ".join(chooser.choices(WORDS, k=chooser.randint(1, 15)))


def _mixture(chooser: random.Random) -> str:
    pieces = (*WORDS, *SCRIPTS, *EMOJI, *CODE, *SPACES)
    return "".join(
        chooser.choice(pieces) + chooser.choice(("", " ", "  ", "\n"))
        for _ in range(chooser.randint(1, 12))
    )


def _digits(chooser: random.Random) -> str:
    return "".join(chooser.choices("0123456789 .,-+\n%", k=chooser.randint(1, 30)))


def _white_space(chooser: random.Random) -> str:
    parts = [
        chooser.choice(SPACES) * chooser.randint(1, 9) + chooser.choice(("", "x", "a b", "1", "."))
        for _ in range(chooser.randint(1, 8))
    ]
    return "".join(parts)


def _unicode(chooser: random.Random) -> str:
    return "".join(_character(chooser) for _ in range(chooser.randint(1, 25)))


def _character(chooser: random.Random) -> str:
    low, high = chooser.choice(
        ((0x20, 0x7F), (0xA0, 0x250), (0x300, 0x3000), (0x3000, 0xD800), (0xE000, 0x11_0000))
    )
    return chr(chooser.randrange(low, high)) + chooser.choice(("", "", chooser.choice(MARKS)))


def _latin_noise(chooser: random.Random) -> str:
    alphabet = "abcXYZ äßÉ'\"`~!@#$%^&*()[]{}<>|/\\_-+=.,:;?\t\n"
    return "".join(chooser.choices(alphabet, k=chooser.randint(1, 40)))


def _repeats(chooser: random.Random) -> str:
    piece = chooser.choice((*EMOJI, *WORDS, "a", "=", "-", "#", "\n", "ab", "。"))
    return piece * chooser.randint(1, 40)
