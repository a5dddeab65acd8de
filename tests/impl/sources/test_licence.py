"""Which licence is recorded for what was chosen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from impl.sources import ImportResult, find_licence
from impl.sources.licence import identify, licence_of

Write = Callable[..., Path]
MIT = "Permission is hereby granted, free of charge, to any person obtaining a copy of this software\n"
APACHE = "                 Apache License\n           Version 2.0, January 2004\n"
OWN = "© 2026 Someone. All rights reserved.\nUse of these materials is governed by your agreement with us.\n"
SKILL = "---\nname: one\ndescription: x\n---\n"


@pytest.mark.parametrize(
    ("text", "spdx", "status"),
    [
        (MIT, "MIT", "found"),
        (APACHE, "Apache-2.0", "found"),
        ("GNU GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007\n" + "x " * 100, "GPL-3.0", "found"),
        ("GNU GENERAL PUBLIC LICENSE\n   Version 2, June 1991\n" + "x " * 100, "GPL-2.0", "found"),
        ("GNU AFFERO GENERAL PUBLIC LICENSE\nVersion 3, GNU General Public License\n", "AGPL-3.0", "found"),
        ("Mozilla Public License Version 2.0\n", "MPL-2.0", "found"),
        ("Copyright (c) X. All rights reserved.\nRedistribution and use in source and binary forms\n",
         "BSD-2-Clause", "found"),
        ("Redistribution and use in source and binary forms. Neither the name of\n", "BSD-3-Clause", "found"),
        ("This is free and unencumbered software released into the public domain.\n", "Unlicense", "found"),
        ("CC0 1.0 Universal\n", "CC0-1.0", "found"),
        ("Creative Commons Attribution 4.0 International\n", "CC-BY-4.0", "found"),
        ("Creative Commons Attribution-NonCommercial 4.0 International\n", None, "source_available"),
        ("Attribution-NonCommercial-ShareAlike 4.0 International\n", None, "source_available"),
        ("Creative Commons Attribution-NoDerivatives 4.0 International\n", None, "source_available"),
        ("Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is "
         "hereby granted.\n\nTHE SOFTWARE IS PROVIDED \"AS IS\"\n", "0BSD", "found"),
        ("EUROPEAN UNION PUBLIC LICENCE v. 1.2\n", "EUPL-1.2", "found"),
        (f"{MIT}subject to the following conditions\n\nPermission to use, copy, modify, and/or distribute this "
         "software for any purpose\n", "MIT", "found"),
        ("GNU Free Documentation License\nVersion 1.3, see the GNU General Public License\n", "GFDL-1.3", "found"),
        ("MOZILLA PUBLIC LICENSE\nVersion 1.1\n\nYou must make the Source available.\n", "MPL-1.1", "found"),
        (f"{MIT}to do so, and to permit persons to whom it is furnished to do so.\n\nTHE SOFTWARE IS PROVIDED\n",
         "MIT-0", "found"),
        ("Business Source License 1.1\n", "BUSL-1.1", "source_available"),
        ("Elastic License 2.0\n", "Elastic-2.0", "source_available"),
        ('"Commons Clause" License Condition v1.0\n' + MIT, None, "source_available"),
        (OWN, None, "source_available"),
        ("SPDX-License-Identifier: ISC\n", "ISC", "found"),
        ("Do as you like, but send a postcard from every harbour you visit, with a ship on it and a stamp.\n",
         None, "found"),
    ],
)  # fmt: skip
def test_a_licence_is_known_by_its_text(text: str, spdx: str | None, status: str) -> None:
    assert identify(text) == (spdx, status)


def test_no_licence_is_missing(inputs: Path, convert: Callable[..., ImportResult]) -> None:
    result = convert(inputs / "no-licence")
    assert result.licence == {"spdx": None, "status": "missing", "path": None}


def test_the_licence_of_a_skill_wins_over_the_roots(write: Write) -> None:
    root = write({"LICENSE": MIT, "a/SKILL.md": SKILL, "a/LICENSE.txt": OWN, "b/SKILL.md": SKILL})
    assert find_licence(root, ["a"]) == {"spdx": None, "status": "source_available", "path": "a/LICENSE.txt"}
    assert find_licence(root, ["b"]) == {"spdx": "MIT", "status": "found", "path": "LICENSE"}


def test_of_several_the_most_restrictive_is_recorded_and_noted(write: Write) -> None:
    root = write({"a/SKILL.md": SKILL, "a/LICENSE": MIT, "b/SKILL.md": SKILL, "b/LICENSE": OWN})
    licence = licence_of(root, ["a", "b"])
    assert licence.status == "source_available"
    assert "MIT (a/LICENSE)" in licence.notes[0]


def test_front_matter_and_package_manifests_may_name_it(write: Write) -> None:
    root = write({"a/SKILL.md": SKILL.replace("description", "license: Apache-2.0\ndescription"),
                  "package.json": '{"license": "ISC"}', "b/SKILL.md": SKILL})  # fmt: skip
    assert find_licence(root, ["a"]) == {"spdx": "Apache-2.0", "status": "found", "path": "a/SKILL.md"}
    assert find_licence(root, ["b"]) == {"spdx": "ISC", "status": "found", "path": "package.json"}


@pytest.mark.parametrize(
    ("path", "text", "spdx", "status"),
    [
        ("pyproject.toml", '[tool.poetry]\nlicense = "MIT"\n', "MIT", "found"),
        ("pyproject.toml",
         "[project]\nclassifiers = ['License :: OSI Approved', 'License :: OSI Approved :: ISC License (ISCL)']\n",
         "ISC", "found"),
        ("pyproject.toml", "[project]\nclassifiers = ['License :: Other/Proprietary License']\n", None,
         "source_available"),
        ("setup.cfg", "[metadata]\nname = x\nlicense = BSD-3-Clause\n", "BSD-3-Clause", "found"),
        ("setup.py", "setup(\n    name='x',\n    license='Apache License 2.0',\n)\n", "Apache-2.0", "found"),
        ("composer.json", '{"license": "LGPL-2.1-only"}', "LGPL-2.1-only", "found"),
        ("package.json", '{"license": "SEE LICENSE IN LICENSE"}', None, "source_available"),
        ("LICENSE", "\n", None, "missing"),
    ],
)  # fmt: skip
def test_a_package_says_its_licence_in_its_own_way(
    write: Write, path: str, text: str, spdx: str | None, status: str
) -> None:
    found = find_licence(write({"README.md": "# A\n", path: text}))
    assert (found["spdx"], found["status"]) == (spdx, status)


def test_code_named_like_a_licence_is_none(write: Write) -> None:
    assert find_licence(write({"license.py": MIT, "LICENSES/MIT.txt": MIT}))["status"] == "missing"
