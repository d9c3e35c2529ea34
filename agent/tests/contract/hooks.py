"""What schemathesis cannot know by itself: which nodes and rotations there are. And what was answered, counted.

`CONTRACT_WORLD` has them as JSON, `CONTRACT_ANSWERS` is the file to count into.
"""

import atexit
import collections
import itertools
import json
import os
import re

import schemathesis
from hypothesis import strategies as st

world = json.loads(os.environ["CONTRACT_WORLD"])
nodes = itertools.cycle(world["nodes"])
tokens = itertools.cycle(world["tokens"])
# Pausing needs rotations that go on, following takes those that are over; a rotation is cancelled once.
rotations = {
    "cancelRotation": itertools.cycle(world["doomed"]),
    "followRotation": itertools.cycle(world["over"]),
}
others = itertools.cycle(world["held"])
turns = itertools.count()
answers = collections.Counter()


key = st.from_regex("([a-z]{1,8}/)?[a-zA-Z0-9]{1,8}", fullmatch=True)
value = st.from_regex("[a-zA-Z0-9]{0,8}", fullmatch=True)
values = st.lists(value, min_size=1, max_size=3).map(",".join)
requirement = st.one_of(
    st.just("pool=web"),
    key,
    key.map("!{}".format),
    st.builds("{}{}{}".format, key, st.sampled_from(["=", "==", "!=", " = "]), value),
    st.builds("{} {} ({})".format, key, st.sampled_from(["in", "notin"]), values),
)
schemathesis.openapi.format("label-selector", st.lists(requirement, min_size=1, max_size=3).map(",".join))


@schemathesis.hook
def before_call(context, case, kwargs):
    # What one token may ask for in a second is little beside what is asked here.
    if case.headers and case.headers.get("Authorization") == f"Bearer {world['tokens'][0]}":
        case.headers["Authorization"] = f"Bearer {next(tokens)}"
    # Every fourth time, what was invented stays.
    if next(turns) % 4 == 0:
        return
    parameters = case.path_parameters or {}
    if re.fullmatch("[0-9a-f]{10}", str(parameters.get("id", ""))):
        operation = case.operation.definition.raw.get("operationId")
        parameters["id"] = next(rotations.get(operation, others))
    if "name" in parameters:
        parameters["name"] = next(nodes)
    if isinstance(case.body, dict) and isinstance(case.body.get("nodes"), list):
        # Both at once are refused before anything else is looked at.
        if case.body["nodes"] and isinstance(case.body.get("selector"), str):
            del case.body["selector"]
        case.body["nodes"] = [next(nodes) if isinstance(node, str) else node for node in case.body["nodes"]]


@schemathesis.hook
def after_call(context, case, response):
    answers[f"{case.method.upper()} {case.operation.path} {response.status_code}"] += 1


@atexit.register
def write():
    with open(os.environ["CONTRACT_ANSWERS"], "w", encoding="utf-8") as file:
        json.dump(answers, file, indent=1, sort_keys=True)
