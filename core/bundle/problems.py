"""The closed set of problems a bundle can have, and the value that reports one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProblemCode(StrEnum):
    """Every code a `Problem` may carry; codes are added, never renamed."""

    # the tree
    SYMLINK = "symlink"
    """A symbolic link stands in the tree; links are never followed."""
    SPECIAL_FILE = "special_file"
    """A socket, pipe or device stands in the tree."""
    HARD_LINK = "hard_link"
    """A file has another name outside the tree, so its content can change from there."""
    CASE_CLASH = "case_clash"
    """Two names in one directory differ by case or Unicode form alone."""
    BAD_PATH = "bad_path"
    """A file name is not valid Unicode or holds a backslash or control character, or a stored path is not a plain
    relative one."""
    PATH_OUTSIDE = "path_outside"
    """A path is absolute or leads out of its directory."""
    TOO_DEEP = "too_deep"
    """Directories nest deeper than the cap."""
    UNREADABLE = "unreadable"
    """The operating system refused to read a file or directory."""
    FILE_TOO_LARGE = "file_too_large"
    """One file is over the size cap."""
    BUNDLE_TOO_LARGE = "bundle_too_large"
    """All files together are over the size cap."""
    TOO_MANY_FILES = "too_many_files"
    """There are more files than the cap."""
    DIGEST_MISMATCH = "digest_mismatch"
    """The files written for a check are not the revision they should be."""

    # YAML
    MANIFEST_MISSING = "manifest_missing"
    """There is no agent.yaml at the root of the bundle."""
    NOT_UTF8 = "not_utf8"
    """A text file of the bundle is not UTF-8."""
    YAML_TOO_LARGE = "yaml_too_large"
    """A YAML document is over its size cap."""
    YAML_SYNTAX = "yaml_syntax"
    """A YAML document cannot be read, or uses tags or several documents."""
    YAML_DUPLICATE_KEY = "yaml_duplicate_key"
    """A mapping has the same key twice."""
    YAML_ALIAS = "yaml_alias"
    """A YAML document uses an anchor or an alias; these are refused."""
    YAML_TOO_DEEP = "yaml_too_deep"
    """A YAML document nests deeper than the cap."""

    # the manifest
    UNKNOWN_KEY = "unknown_key"
    """A key is none of the format's."""
    MISSING_KEY = "missing_key"
    """A required key is absent."""
    BAD_VALUE = "bad_value"
    """A value has the wrong type or is out of range."""
    BAD_NAME = "bad_name"
    """A name breaks the rule for names of its kind."""
    DUPLICATE_NAME = "duplicate_name"
    """Two entries of a list have the same name."""
    PERSONA_MISSING = "persona_missing"
    """The persona file is absent."""
    PERSONA_EMPTY = "persona_empty"
    """The persona file has no text."""
    CORPUS_EMPTY = "corpus_empty"
    """The manifest says there is a corpus, but corpus/ has no files."""
    UNLISTED = "unlisted"
    """A skill, tool or corpus is in the bundle, but the manifest does not list it."""

    # skills
    SKILL_MISSING = "skill_missing"
    """A listed skill has no skills/NAME/SKILL.md."""
    SKILL_INVALID = "skill_invalid"
    """A SKILL.md breaks the Agent Skills rules."""

    # credentials, hosts, MCP
    CREDENTIAL_VALUE = "credential_value"
    """A credential's value stands in the bundle, or a key that is called as one; bundles hold names alone."""
    CREDENTIAL_INJECTION = "credential_injection"
    """A credential does not say exactly one of header, query and basic_user."""
    CREDENTIAL_UNDECLARED = "credential_undeclared"
    """A tool or MCP server uses a credential that the manifest does not declare."""
    CREDENTIAL_HOSTS = "credential_hosts"
    """A tool or MCP server would send a credential to no host that credential is declared for."""
    WILDCARD_HOST = "wildcard_host"
    """A host has a wildcard; hosts are exact."""
    BAD_HOST = "bad_host"
    """A host is not a plain lower-case name of two labels or more, without scheme, port or path; or is an address."""
    STDIO_CREDENTIAL = "stdio_credential"
    """A stdio MCP server wants a credential, an environment or a key among its arguments; HTTP servers may have one."""

    # tools
    TOOL_MISSING = "tool_missing"
    """A listed tool has no tools/NAME/tool.yaml."""
    TOOL_NAME_CLASH = "tool_name_clash"
    """A tool has the name of a standard tool."""
    ENTRYPOINT_MISSING = "entrypoint_missing"
    """The entrypoint file of a tool is absent."""
    ENTRYPOINT_SIGNATURE = "entrypoint_signature"
    """The entrypoint does not define `run(ctx, input)` at module level."""
    PYTHON_SYNTAX = "python_syntax"
    """A Python file of a tool cannot be parsed."""
    UNDECLARED_IMPORT = "undeclared_import"
    """An import is neither standard library, nor a file of the tool, nor from a declared requirement."""
    RELATIVE_IMPORT = "relative_import"
    """A top-level module of a tool imports relatively; the tool's directory is no package."""
    REQUIREMENT_INVALID = "requirement_invalid"
    """A requirement is not a PEP 508 requirement."""
    REQUIREMENT_URL = "requirement_url"
    """A requirement names a URL or a path instead of a release of an index."""
    REQUIREMENT_OPTION = "requirement_option"
    """A requirement is an option of the installer."""
    SCHEMA_MISSING = "schema_missing"
    """A tool has no input schema, or its schema file is absent."""
    SCHEMA_INVALID = "schema_invalid"
    """A schema is not valid JSON Schema 2020-12, or not JSON."""
    SCHEMA_NOT_OBJECT = "schema_not_object"
    """A tool's input schema is not of type object."""
    SCHEMA_REMOTE_REF = "schema_remote_ref"
    """A `$ref` leads anywhere but into its own schema."""
    SCHEMA_DANGLING_REF = "schema_dangling_ref"
    """A `$ref` names a place its schema does not have."""
    EXAMPLE_FAILED = "example_failed"
    """An example of a tool, run in the sandbox with its recorded effects, did not give the output it shows."""
    ENVIRONMENT_FAILED = "environment_failed"
    """What a tool declares to need could not be installed in a sandbox."""
    EXAMPLE_INVALID = "example_invalid"
    """An example's input does not fit the tool's schema."""
    CHECK_UNFINISHED = "check_unfinished"
    """A check ran out of time or memory on this content."""

    # secrets
    PRIVATE_KEY = "private_key"
    """A file holds a private key."""
    SECRET_IN_FILE = "secret_in_file"
    """A file holds what looks like an access token or a password."""

    # the gate
    UNSAFE_SANDBOX = "unsafe_sandbox"
    """A bundle with tools was validated without isolation, and nobody allowed that."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: `path` is relative to what was checked, `hint` is the next step.

    The message says the line where there is one. No message ever quotes a secret.
    """

    code: ProblemCode
    path: str
    message: str
    hint: str = ""

    def to_json(self) -> dict[str, str]:
        """`{"code", "path", "message", "hint"}`, all strings."""
        return {"code": str(self.code), "path": self.path, "message": self.message, "hint": self.hint}
