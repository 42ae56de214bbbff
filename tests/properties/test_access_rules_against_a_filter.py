"""Compiled rules say what a filter over all rules says, written down as Kafka's documentation has it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.access.identity import EVERYBODY, Identity, Principal
from headrace.access.operations import Operation, PatternType, Permission, ResourceType
from headrace.access.rules.acl import Acl
from headrace.access.rules.compiled import CompiledRules
from headrace.access.rules.filters import AclFilter, covers

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOSTS = ("10.0.0.1", "10.0.0.2")
IMPLY_DESCRIBE = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}

names = st.text("ab", min_size=1, max_size=3) | st.just("*")
kinds = st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP])
operations = st.sampled_from([op for op in Operation if op > Operation.ANY])
acls = st.builds(
    Acl,
    kinds,
    names,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from([ALICE, BOB, EVERYBODY]),
    st.sampled_from(["*", *HOSTS]),
    operations,
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
rule_sets = st.lists(acls, max_size=12, unique=True)
askers = st.builds(Identity, st.sampled_from([ALICE, BOB]), st.sampled_from(HOSTS))
asked_names = st.text("ab", min_size=1, max_size=4)


def applies(acl: Acl, identity: Identity) -> bool:
    return acl.principal in {identity.principal, EVERYBODY} and acl.host in {"*", identity.host}


def model(rules: list[Acl], identity: Identity, asked: Operation, kind: ResourceType, name: str, if_none: bool) -> bool:
    about = [acl for acl in rules if acl.resource_type is kind and covers(acl, name)]
    if not about:
        return if_none
    verdicts = set()
    for acl in about:
        if not applies(acl, identity):
            continue
        is_meant = acl.operation in {asked, Operation.ALL}
        if acl.permission is Permission.ALLOW and asked is Operation.DESCRIBE:
            is_meant |= acl.operation in IMPLY_DESCRIBE
        if acl.permission is Permission.ALLOW and asked is Operation.DESCRIBE_CONFIGS:
            is_meant |= acl.operation is Operation.ALTER_CONFIGS
        if is_meant:
            verdicts.add(acl.permission)
    return verdicts == {Permission.ALLOW}


@given(rule_sets, askers, operations, kinds, asked_names, st.booleans())
def test_every_question_is_answered_as_by_looking_at_all_rules(rules, identity, operation, kind, name, if_none):
    said = CompiledRules(rules).allows(identity, operation, kind, name, if_no_rule=if_none)
    assert said == model(rules, identity, operation, kind, name, if_none)


@given(rule_sets, st.lists(st.tuples(st.booleans(), acls), max_size=20), askers, operations, kinds, asked_names)
def test_rules_that_come_and_go_leave_what_compiling_anew_gives(rules, changes, identity, operation, kind, name):
    compiled, current = CompiledRules(rules), dict.fromkeys(rules)
    for is_added, acl in changes:
        if is_added and acl not in current:
            compiled.add(acl)
            current[acl] = None
        elif not is_added and acl in current:
            compiled.remove(acl)
            del current[acl]
    anew = CompiledRules(current)
    for if_none in (False, True):
        question = identity, operation, kind, name
        assert compiled.allows(*question, if_no_rule=if_none) == anew.allows(*question, if_no_rule=if_none)
    assert compiled.allows_on_some(identity, operation, kind) == anew.allows_on_some(identity, operation, kind)
    for acl in list(current):
        compiled.remove(acl)
    assert [*compiled._rules, *compiled._patterns, *compiled._of_principals] == []  # nothing is left behind
    assert not any(compiled._prefix_lengths.values())


@given(rule_sets, askers, operations, kinds)
def test_who_may_on_some_name_finds_one(rules, identity, operation, kind):
    """Where prefixes are longer than what denies them there is a name; the test tries those that rules mention."""
    compiled = CompiledRules(rules)
    tried = ["hardcode", *(acl.name + end for acl in rules for end in ("", "z"))]
    rights = [
        acl
        for acl in rules
        if acl.resource_type is kind and acl.operation in {operation, Operation.ALL} and applies(acl, identity)
    ]
    found = any(model(rules, identity, operation, kind, name, False) for name in tried)
    if compiled.allows_on_some(identity, operation, kind):
        assert found
    if (Permission.DENY, PatternType.LITERAL, "*") in {(acl.permission, acl.pattern, acl.name) for acl in rights}:
        assert not compiled.allows_on_some(identity, operation, kind)


@given(acls, asked_names | st.just("*"), kinds)
def test_match_finds_what_counts_for_a_name_and_any_what_bears_it(acl, name, kind):
    match = AclFilter(kind, name, PatternType.MATCH)
    assert match.matches(acl) == (acl.resource_type is kind and covers(acl, name))
    assert AclFilter(kind, name).matches(acl) == (acl.resource_type is kind and acl.name == name)
    assert AclFilter(name=name, pattern=PatternType.LITERAL).matches(acl) == (
        acl.pattern is PatternType.LITERAL and acl.name == name
    )
    assert AclFilter(principal=acl.principal, host=acl.host, operation=acl.operation).matches(acl)
    assert AclFilter().matches(acl)


def test_what_a_question_costs_does_not_depend_on_rules_for_others():
    def rules(count):
        for number in range(count):
            kind = PatternType.PREFIXED if number % 2 else PatternType.LITERAL
            yield Acl(
                ResourceType.TOPIC,
                f"t{number:05}",
                kind,
                Principal("User", f"u{number}"),
                "*",
                Operation.READ,
                Permission.ALLOW,
            )

    def looked_at(compiled):
        return list(compiled._about(Identity(Principal("User", "u7"), "h"), ResourceType.TOPIC, "t00007"))

    few, many = CompiledRules(rules(10)), CompiledRules(rules(10_000))
    assert looked_at(few) == looked_at(many)
    assert len(list(many._patterns_for(ResourceType.TOPIC, "t00007"))) == 3


@given(
    rule_sets,
    st.builds(
        AclFilter,
        kinds | st.just(ResourceType.ANY),
        names | st.none(),
        st.sampled_from([it for it in PatternType if it]),
        st.sampled_from([ALICE, None]),
        st.sampled_from(["*", None]),
        operations | st.just(Operation.ANY),
        st.sampled_from([Permission.ANY, Permission.ALLOW]),
    ),
)
def test_a_filter_that_leaves_nothing_open_matches_its_one_rule_and_no_other(rules, meant):
    only = meant.only
    if only is not None:
        assert meant.matches(only)
        assert all(meant.matches(acl) == (acl == only) for acl in rules)
