"""Names of C++ symbols as people read them, as far as symbols of libtorch need it (Itanium C++ ABI).

Written by hand because a symbol comes from a stranger's report: the pure-Python library for it runs into exponential
output on text made for that, and the others need a C++ runtime. Length, depth and output are bounded here, and what is
not understood is left out ("…") instead of guessed. https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling
"""

from __future__ import annotations

import functools

LONGEST = 1000  # characters of a symbol that are read, and of a name that is made
_DEEPEST = 40
_BUILTIN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "f": "float", "d": "double", "w": "wchar_t", "z": "...",
}  # fmt: skip
_STANDARD = {"Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string", "So": "std::ostream"}
_SHORTER = (("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>", "std::__cxx11::string"),)


class _Unknown(Exception):
    """The symbol uses something that is not understood here."""


@functools.lru_cache(maxsize=512)
def demangle(symbol: str) -> str:
    """The name behind a mangled symbol, "c10::cuda::SetDevice(int)"; the symbol itself where it is none."""
    if not symbol.startswith("_Z") or len(symbol) > LONGEST:
        return symbol
    parser = _Parser(symbol[2:])
    try:
        name = parser.encoded_name()
    except (_Unknown, IndexError):
        return symbol
    try:
        # A function template names its return type before its parameters, unless it is a constructor.
        types = [] if parser.is_data else parser.parameters()[name.endswith(">") :]
        parameters = "" if types == ["void"] else ", ".join(types)
        text = name if parser.is_data else f"{name}({parameters}){parser.constancy}"
    except (_Unknown, IndexError):
        text = f"{name}(…){parser.constancy}"
    for long, short in _SHORTER:
        text = text.replace(long, short)
    return text if len(text) <= LONGEST else f"{name[:LONGEST]}(…)"


def string_abi(symbol: str) -> str:
    """Which std::string a symbol speaks of: "new" (`__cxx11`), "old" (`Ss`), or "" where it speaks of none."""
    if "__cxx11" in symbol:
        return "new"
    return "old" if "std::string" in demangle(symbol) else ""


class _Parser:
    """Reads a mangled name from left to right. Raises _Unknown or IndexError."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._seen: list[str] = []  # what S_, S0_, … stand for
        self.constancy = ""  # " const" of a method
        self.is_data = False  # a table or a type's name, which takes no parameters

    def encoded_name(self) -> str:
        """The qualified name of the function or variable."""
        special = {"TV": "vtable for ", "TI": "typeinfo for ", "TS": "typeinfo name for "}.get(self._text[:2], "")
        if special:
            self._at, self.is_data = 2, True
            return special + self._type()
        if self._peek() == "N":
            return self._nested(is_type=False)
        name = self._unscoped()
        if self._peek() == "I":
            self._remember(name)
            name += self._arguments()
        return name

    def parameters(self) -> list[str]:
        """The parameter types of the function; `void` alone is none."""
        if self._at == len(self._text):
            raise _Unknown
        types: list[str] = []
        while self._at < len(self._text) and self._text[self._at] not in ".@":
            types.append(self._type())
        return types

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, token: str) -> bool:
        if self._text.startswith(token, self._at):
            self._at += len(token)
            return True
        return False

    def _remember(self, text: str) -> str:
        if len(text) > LONGEST:
            raise _Unknown
        self._seen.append(text)
        return text

    def _source_name(self) -> str:
        digits = ""
        while self._peek().isdigit():
            digits += self._text[self._at]
            self._at += 1
        end = self._at + int(digits or "0")
        if not digits or len(digits) > 3 or end > len(self._text):
            raise _Unknown
        name, self._at = self._text[self._at : end], end
        return name

    def _unscoped(self) -> str:
        return f"std::{self._source_name()}" if self._take("St") else self._source_name()

    def _nested(self, is_type: bool) -> str:
        self._take("N")
        while self._peek() in ("K", "V", "r"):
            if self._text[self._at] == "K" and not is_type:
                self.constancy = " const"
            self._at += 1
        name, last, added = "", "", False
        while not self._take("E"):
            if self._peek() == "S" and not name:
                name = "std" if self._take("St") else self._substitution()
                last, added = name, False
                continue
            if self._peek() == "I":
                name += self._arguments()
            else:
                last = self._component(last)
                name = f"{name}::{last}" if name else last
            self._remember(name)
            added = True
        if added and not is_type:
            self._seen.pop()  # a function's own name is no type
        return name

    def _component(self, last: str) -> str:
        if self._peek() == "C" or self._peek() == "D":
            kind = self._text[self._at : self._at + 2]
            self._at += 2
            plain = last.partition("<")[0].rpartition("::")[2]
            return f"~{plain}" if kind[0] == "D" else plain
        return self._source_name()

    def _substitution(self) -> str:
        two = self._text[self._at : self._at + 2]
        if two in _STANDARD:
            self._at += 2
            return _STANDARD[two]
        if not self._take("S"):
            raise _Unknown
        end = self._text.index("_", self._at) if "_" in self._text[self._at :] else -1
        digits, self._at = self._text[self._at : end], end + 1
        if end < 0 or len(digits) > 2:
            raise _Unknown
        return self._seen[int(digits, 36) + 1 if digits else 0]

    def _arguments(self) -> str:
        self._take("I")
        types: list[str] = []
        while not self._take("E"):
            types.append(self._type())
        return f"<{', '.join(filter(None, types))}>"

    def _type(self) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Unknown
        try:
            return self._inner_type()
        finally:
            self._depth -= 1

    def _inner_type(self) -> str:
        letter = self._text[self._at]
        for mark, sign in (("P", "*"), ("R", "&"), ("O", "&&"), ("K", " const")):
            if self._take(mark):
                return self._remember(self._type() + sign)
        if letter in _BUILTIN:
            self._at += 1
            return _BUILTIN[letter]
        if letter == "N":
            return self._with_arguments(self._nested(is_type=True))
        if letter == "S" and not self._text.startswith("St", self._at):
            return self._with_arguments(self._substitution())
        if self._take("J"):
            return self._arguments()[1:-1]
        if self._take("L"):
            return self._literal()
        return self._with_arguments(self._remember(self._unscoped()))

    def _with_arguments(self, name: str) -> str:
        return self._remember(name + self._arguments()) if self._peek() == "I" else name

    def _literal(self) -> str:
        kind = self._type()
        end = self._text.index("E", self._at) if "E" in self._text[self._at :] else -1
        value, self._at = self._text[self._at : end], end + 1
        if end < 0:
            raise _Unknown
        return {"0": "false", "1": "true"}.get(value, value) if kind == "bool" else value
