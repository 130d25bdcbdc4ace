"""Variables and matching of the conformance suite, as its README defines them."""

import json
import re

from tickwheel.types import parse_duration

ABSENT = object()


class Mismatch(AssertionError):
    """An answer is not what the scenario expects."""


def substitute(value, variables):
    if isinstance(value, str):
        whole = re.fullmatch(r"\$\{(\w+)\}", value)
        if whole:
            return variables[whole[1]]
        return re.sub(r"\$\{(\w+)\}", lambda found: str(variables[found[1]]), value)
    if isinstance(value, list):
        return [substitute(item, variables) for item in value]
    if isinstance(value, dict):
        if list(value) == ["$sum"]:
            return sum(substitute(value["$sum"], variables))
        return {name: substitute(item, variables) for name, item in value.items()}
    return value


def point(document, pointer):
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def duration(value):
    return parse_duration(int(value) if isinstance(value, (int, float)) else value)


def is_match(expected, found):
    try:
        match(expected, found)
        return True
    except Mismatch:
        return False


MATCHERS = {
    "$any": lambda _, found: found is not None and found is not ABSENT,
    "$absent": lambda _, found: found is None or found is ABSENT,
    "$exact": lambda value, found: json.dumps(value, sort_keys=True) == json.dumps(found, sort_keys=True),
    "$contains": lambda text, found: isinstance(found, str) and text in found,
    "$duration": lambda value, found: found not in (None, ABSENT) and duration(value) == duration(found),
    "$between": lambda bounds, found: isinstance(found, (int, float)) and bounds[0] <= found <= bounds[1],
    "$not": lambda value, found: not is_match(value, found),
}


def match(expected, found, at=""):
    if isinstance(expected, dict):
        name = next(iter(expected), "")
        if name.startswith("$") and len(expected) == 1:
            is_right = MATCHERS[name](expected[name], found)
        elif isinstance(found, dict):
            for member, value in expected.items():
                match(value, found.get(member, ABSENT), f"{at}/{member}")
            is_right = True
        else:
            is_right = False
    elif isinstance(expected, list):
        is_right = isinstance(found, list) and len(found) == len(expected)
        if is_right:
            for index, (value, item) in enumerate(zip(expected, found)):
                match(value, item, f"{at}/{index}")
    elif expected is None:
        is_right = found is None or found is ABSENT
    else:
        is_right = found is not ABSENT and expected == found and isinstance(expected, bool) == isinstance(found, bool)
    if not is_right:
        shown = "absent" if found is ABSENT else json.dumps(found, ensure_ascii=False)
        raise Mismatch(f"at {at or '/'}: expected {json.dumps(expected, ensure_ascii=False)}, found {shown}")
