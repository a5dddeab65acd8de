"""Whether an import of generated code can work in the sandbox, and whether a requirement may be installed."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection

from core.bundle.problems import ProblemCode

# fmt: off
REMOVED = frozenset(
    {
        "aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt", "distutils",
        "imghdr", "imp", "lib2to3", "mailcap", "msilib", "nis", "nntplib", "ossaudiodev", "pipes",
        "smtpd", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib",
    }
)
# fmt: on
"""Modules of the standard library of Python 3.11 that 3.12 or 3.13 no longer has."""

STDLIB = frozenset(sys.stdlib_module_names) - REMOVED
"""What every supported Python has."""

DISTRIBUTIONS = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "bson": "pymongo",
    "crypto": "pycryptodome",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "discord": "discord-py",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "git": "gitpython",
    "github": "pygithub",
    "gitlab": "python-gitlab",
    "googleapiclient": "google-api-python-client",
    "jose": "python-jose",
    "jwt": "pyjwt",
    "ldap": "python-ldap",
    "magic": "python-magic",
    "markdown-it": "markdown-it-py",
    "mpl-toolkits": "matplotlib",
    "multipart": "python-multipart",
    "mysqldb": "mysqlclient",
    "nacl": "pynacl",
    "openssl": "pyopenssl",
    "pil": "pillow",
    "pkg-resources": "setuptools",
    "pptx": "python-pptx",
    "pylab": "matplotlib",
    "pythoncom": "pywin32",
    "rapidjson": "python-rapidjson",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slugify": "python-slugify",
    "socks": "pysocks",
    "telegram": "python-telegram-bot",
    "tlz": "toolz",
    "usb": "pyusb",
    "websocket": "websocket-client",
    "win32api": "pywin32",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
"""The distribution of an import whose name is another, both in normalised form."""

_OPTION = re.compile(r"(^|\s)--?[A-Za-z]")
_LOCATION = re.compile(r"://|^(file|git|hg|svn|bzr)[:+]|^[.~/\\]")
_ARCHIVE = re.compile(r"(?i)\.(whl|zip|tar\.gz|tgz|tar\.bz2|tar\.xz)$")  # the installer takes it for a file's name


def normalise(name: str) -> str:
    """A distribution's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_declared(module: str, local: Collection[str], distributions: Collection[str]) -> bool:
    """Whether the dotted `module` is standard library, a module of the tool (`local`, top-level names) or
    provided by one of the `distributions` (normalised names)."""
    top = module.partition(".")[0]
    if top in STDLIB or top in local:
        return True
    key = normalise(top)
    if key in distributions or DISTRIBUTIONS.get(key) in distributions:
        return True
    # Namespace packages: google.cloud.storage comes from google-cloud-storage.
    return any(name.startswith(key + "-") for name in distributions)


def judge_requirement(text: str) -> tuple[str | None, ProblemCode | None, str]:
    """`(distribution, None, "")` for a requirement that may be installed, else `(name or None, code, why)`."""
    from packaging.requirements import InvalidRequirement, Requirement

    stripped = text.strip()
    if _OPTION.search(stripped):
        return None, ProblemCode.REQUIREMENT_OPTION, "is an option of the installer"
    try:
        requirement = Requirement(stripped)
    except InvalidRequirement:
        if _LOCATION.search(stripped) or _ARCHIVE.search(stripped):
            return None, ProblemCode.REQUIREMENT_URL, "is a URL or a path, not a release of an index"
        return None, ProblemCode.REQUIREMENT_INVALID, "is not a requirement such as name>=1.2"
    name = normalise(requirement.name)
    if requirement.url is not None:
        return name, ProblemCode.REQUIREMENT_URL, "names a URL, not a release of an index"
    if _ARCHIVE.search(requirement.name):
        return name, ProblemCode.REQUIREMENT_URL, "is a file's name, not a release of an index"
    return name, None, ""
