"""What drifts from one telling of the same thing to the next, in the shapes the world gives it."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import re
import uuid
from collections.abc import Callable

_BASE = dt.datetime(2026, 8, 3, 9, 58, 41, 123456)
_LOWER = "abcdefghijklmnopqrstuvwxyz"
_UPPER = _LOWER.upper()
_DIGITS = "0123456789"
_HEX = "0123456789abcdef"


def _at(dice: random.Random, number: int) -> dt.datetime:
    later = number * dice.randint(1, 400) + dice.randint(0, 59)
    return _BASE + dt.timedelta(seconds=later, microseconds=dice.randint(0, 999_999))


def _ms(t: dt.datetime) -> str:
    return f"{t.microsecond // 1000:03d}"


def _of(dice: random.Random, count: int, letters: str = _LOWER + _DIGITS) -> str:
    return "".join(dice.choice(letters) for _ in range(count))


TIMES: dict[str, Callable[[dt.datetime], str]] = {
    "iso_z": lambda t: f"{t:%Y-%m-%dT%H:%M:%SZ}",
    "iso_min": lambda t: f"{t:%Y-%m-%dT%H:%MZ}",
    "iso_ms": lambda t: f"{t:%Y-%m-%dT%H:%M:%S}.{_ms(t)}Z",
    "iso_ns": lambda t: f"{t:%Y-%m-%dT%H:%M:%S.%f}{t.microsecond % 1000:03d}Z",
    "iso_us_zone": lambda t: f"{t:%Y-%m-%dT%H:%M:%S.%f}+02:00",
    "iso_zone": lambda t: f"{t:%Y-%m-%dT%H:%M:%S}+0200",
    "maven": lambda t: f"{t:%Y-%m-%dT%H:%M:%S}+02:00",
    "ruby": lambda t: f"{t:%Y-%m-%d %H:%M:%S} +0200",
    "sql": lambda t: f"{t:%Y-%m-%d %H:%M:%S}",
    "sql_zone": lambda t: f"{t:%Y-%m-%d %H:%M:%S.%f}+00",
    "postgres": lambda t: f"{t:%Y-%m-%d %H:%M:%S}.{_ms(t)} UTC",
    "python_log": lambda t: f"{t:%Y-%m-%d %H:%M:%S},{_ms(t)}",
    "go_log": lambda t: f"{t:%Y/%m/%d %H:%M:%S}",
    "clf": lambda t: f"{t:[%d/Aug/%Y:%H:%M:%S +0000]}",
    "syslog": lambda t: f"Aug {t.day:2d} {t:%H:%M:%S}",
    "http": lambda t: f"{t:%a, %d Aug %Y %H:%M:%S GMT}",
    "ctime": lambda t: f"{t:%a} Aug {t.day:2d} {t:%H:%M:%S %Y}",
    "date": lambda t: f"{t:%a} Aug {t.day:2d} {t:%H:%M:%S} UTC {t:%Y}",
    "dmesg": lambda t: f"[{t:%a} Aug {t.day:2d} {t:%H:%M:%S %Y}]",
    "apache": lambda t: f"[{t:%a} Aug {t:%d %H:%M:%S.%f %Y}]",
    "am_pm": lambda t: f"{t:%I:%M:%S} AM",
    "us": lambda t: f"{t:%m/%d/%Y, %I:%M:%S} AM",
    "month": lambda t: f"August {t:%d, %Y %I:%M} AM",
    "german": lambda t: f"{t:%d.%m.%Y %H:%M:%S}",
    "basic": lambda t: f"{t:%Y%m%dT%H%M%SZ}",
    "digits": lambda t: f"{t:%Y%m%d%H%M%S}",
    "stamp": lambda t: f"{t:%Y%m%d-%H%M%S}",
    "npm_log": lambda t: f"{t:%Y-%m-%dT%H_%M_%S}_{_ms(t)}Z",
    "epoch": lambda t: f"{t.timestamp():.0f}",
    "epoch_ms": lambda t: f"{t.timestamp() * 1000:.0f}",
    "epoch_us": lambda t: f"{t.timestamp():.6f}",
    "clock": lambda t: f"{t:%H:%M:%S}",
    "clock_ms": lambda t: f"{t:%H:%M:%S}.{_ms(t)}",
    "clock_brackets": lambda t: f"{t:[%H:%M:%S]}",
    "klog_info": lambda t: f"I{t:%m%d %H:%M:%S.%f}",
    "klog_error": lambda t: f"E{t:%m%d %H:%M:%S.%f}",
    "day": lambda t: f"{t + dt.timedelta(days=t.microsecond % 50):%Y-%m-%d}",
    "kernel": lambda t: f"[{t.microsecond % 90_000 + 5:5d}.{t.microsecond:06d}]",
}
DURATIONS: dict[str, Callable[[random.Random], str]] = {
    "s2": lambda d: f"{d.uniform(0.01, 90):.2f}s",
    "s": lambda d: f"{d.randint(1, 900)}s",
    "s_apart": lambda d: f"{d.uniform(0.01, 90):.3f} s",
    "ms": lambda d: f"{d.randint(1, 9000)}ms",
    "ms_apart": lambda d: f"{d.uniform(1, 9000):.3f} ms",
    "ms_long": lambda d: f"{d.uniform(1, 900):.6f}ms",
    "us": lambda d: f"{d.uniform(1, 900):.1f}µs",
    "ns": lambda d: f"{d.randint(1, 900_000)} ns/op",
    "seconds": lambda d: f"{d.uniform(0.1, 90):.1f} seconds",
    "secs": lambda d: f"{d.randint(2, 90)} secs",
    "sec": lambda d: f"{d.randint(2, 90)} sec",
    "msec": lambda d: f"{d.randint(1, 9000)} msec",
    "milliseconds": lambda d: f"{d.randint(1, 9000)} milliseconds",
    "minutes": lambda d: f"{d.randint(2, 50)} minutes",
    "hours": lambda d: f"{d.uniform(1, 90):.2f} hours",
    "m_s": lambda d: f"{d.randint(1, 59)}m{d.randint(0, 59)}s",
    "m_s_apart": lambda d: f"{d.randint(1, 59)}m {d.randint(0, 59)}s",
    "h_m_s": lambda d: f"{d.randint(1, 9)}h{d.randint(1, 59)}m{d.randint(1, 59)}s",
    "real": lambda d: f"{d.randint(0, 9)}m{d.uniform(0, 59):.3f}s",
    "clock": lambda d: f"0:{d.randint(0, 59):02d}:{d.randint(0, 59):02d}",
    "clock_us": lambda d: f"0:00:{d.randint(0, 59):02d}.{d.randint(0, 999_999):06d}",
}
PATHS: dict[str, Callable[[random.Random], str]] = {
    "python": lambda d: f"/tmp/tmp{_of(d, 8)}",
    "mktemp": lambda d: f"/tmp/tmp.{_of(d, 10, _LOWER + _UPPER + _DIGITS)}",
    "mkdtemp": lambda d: f"/tmp/build-{_of(d, 6, _LOWER + _UPPER + _DIGITS)}",
    "var_tmp": lambda d: f"/var/tmp/tmp{_of(d, 8)}",
    "run": lambda d: f"/run/user/1000/tmp{_of(d, 8)}",
    "mac": lambda d: f"/var/folders/{_of(d, 2)}/{_of(d, 30)}/T/{_of(d, 8)}",
    "windows": lambda d: f"C:\\Users\\ci\\AppData\\Local\\Temp\\tmp{_of(d, 8)}",
    "pip": lambda d: f"/tmp/pip-install-{_of(d, 8)}/pkg_{_of(d, 32, _HEX)}",
    "pytest": lambda d: f"/tmp/pytest-of-root/pytest-{d.randint(0, 99)}/test_x0",
    "go": lambda d: f"/tmp/go-build{d.randint(10**8, 10**10)}/b001",
    "gcc": lambda d: f"/tmp/cc{_of(d, 6, _LOWER + _UPPER + _DIGITS)}.o",
    "rustc": lambda d: f"/tmp/rustc{_of(d, 6, _LOWER + _UPPER + _DIGITS)}",
    "npm": lambda d: f"/tmp/npm-{d.randint(1000, 99_999)}-{_of(d, 8, _HEX)}",
    "job": lambda d: f"/tmp/job_{d.randint(1000, 99_999)}",
    "nix": lambda d: f"/tmp/nix-build-foo.drv-{d.randint(0, 40)}",
    "cache": lambda d: f"/root/.cache/uv/.tmp{_of(d, 6, _LOWER + _UPPER + _DIGITS)}",
}
IDS: dict[str, Callable[[random.Random], str]] = {
    "uuid": lambda d: str(uuid.UUID(int=d.getrandbits(128))),
    "uuid_upper": lambda d: str(uuid.UUID(int=d.getrandbits(128))).upper(),
    "sha7": lambda d: f"a{_of(d, 3, _HEX)}4{_of(d, 2, _HEX)}",
    "sha40": lambda d: _of(d, 40, _HEX),
    "sha256": lambda d: f"sha256:{_of(d, 64, _HEX)}",
    "container": lambda d: f"{_of(d, 10, _HEX)}3e",
    "trace": lambda d: _of(d, 32, _HEX),
    "hex16": lambda d: f"{_of(d, 15, _HEX)}7",
    "request": lambda d: f"req_{_of(d, 24, 'abcdefghABCDEFGH' + _DIGITS)}",
    "run": lambda d: f"run-{_of(d, 8)}4z",
    "ulid": lambda d: f"01{_of(d, 24, 'ABCDEFGHJKMNPQRSTVWXYZ' + _DIGITS)}",
    "aws": lambda d: f"{_of(d, 11, 'ABCDEFGHIJKLMNOP' + _DIGITS)}4Z7",
    "amazon": lambda d: f"1-{_of(d, 8, _HEX)}-{_of(d, 24, _HEX)}",
    "ray": lambda d: f"{_of(d, 14, _HEX)}9f-FRA",
    "base64": lambda d: f"{_of(d, 20, _UPPER + _LOWER + _DIGITS)}==",
    "pod": lambda d: f"api-{_of(d, 9, _HEX)}7-{_of(d, 5)}",
    "number": lambda d: str(d.randint(10**11, 10**15)),
}
_ADDRESSES = {"a": 12, "b": 8, "c": 16, "d": 9}

SHAPES: dict[str, list[str]] = {
    "time": list(TIMES),
    "dur": list(DURATIONS),
    "tmp": list(PATHS),
    "id": list(IDS),
    "addr": list(_ADDRESSES),
    "pid": [""],
    "line": [""],
    "sport": [""],
}


class Fill:
    """Fills `[[slot]]` and `[[slot:shape]]` of a text with what drifts: shapes stay for a session, values do not."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.shapes: dict[tuple[str, int], str] = {}

    def __call__(self, text: str, number: int) -> str:
        places = itertools.count()

        def value(match: re.Match[str]) -> str:
            slot, shape = match.group(1), match.group(2)
            place = (slot, next(places))
            if shape is None:
                shape = self.shapes.get(place) or self.shapes.setdefault(place, self.dice.choice(SHAPES[slot]))
            return _value(self.dice, number, slot, shape)

        return _SLOT.sub(value, text)


_SLOT = re.compile(r"\[\[([a-z]+)(?::(\w+))?\]\]")


def _value(dice: random.Random, number: int, slot: str, shape: str) -> str:
    match slot:
        case "time":
            return TIMES[shape](_at(dice, number))
        case "dur":
            return DURATIONS[shape](dice)
        case "tmp":
            return PATHS[shape](dice)
        case "id":
            return IDS[shape](dice)
        case "addr":
            return f"0x{_of(dice, _ADDRESSES[shape], _HEX)}"
        case "pid":
            return str(dice.randint(100, 99_999))
        case "line":
            return str(dice.randint(1, 900))
        case _:
            return str(dice.randint(32_768, 60_999))
