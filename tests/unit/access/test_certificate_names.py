"""Kafka's rules that make a certificate's name a principal's."""

from __future__ import annotations

import pytest

from headrace.access.authentication.certificate_names import NameRules, NotRules

DOCUMENTED = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT"
)
"""The example of Kafka's own documentation."""


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("OU=x,cn=Abc.D,L=r", "abc.d"),
        ("O=nobody", "O=nobody"),
    ],
)
def test_the_first_rule_that_fits_counts(subject: str, name: str) -> None:
    assert NameRules(DOCUMENTED).name_of(subject) == name


def test_without_rules_the_name_is_the_whole_subject() -> None:
    assert NameRules().name_of("CN=a,OU=b") == "CN=a,OU=b"
    assert NameRules("  ").name_of("CN=a,OU=b") == "CN=a,OU=b"


def test_a_name_that_no_rule_fits_is_nobodys() -> None:
    assert NameRules("RULE:^CN=([a-z]+)$/$1/").name_of("CN=alice,OU=x") is None


def test_a_pattern_has_to_fit_the_whole_name() -> None:
    assert NameRules("RULE:CN=admin/root/").name_of("CN=admin,OU=guests") is None


def test_a_rule_that_makes_an_empty_name_names_nobody() -> None:
    assert NameRules("RULE:^.*$//").name_of("CN=a") is None


def test_case_and_escapes_as_in_kafka() -> None:
    assert NameRules(r"RULE:^CN=(.*)$/$1/U").name_of("CN=a") == "A"
    assert NameRules(r"RULE:^CN=a\/(.*)$/$1\/x/").name_of("CN=a/b") == "b/x"
    assert NameRules(r"RULE:^CN=(.*)$/\$$1/").name_of("CN=b") == "$b"


@pytest.mark.parametrize(
    "text",
    ["CN", "RULE:^CN=(.*)$", "RULE:^CN=(.*)$/$1", "RULE:(/x/", "RULE:^CN=(.*)$/$2/", "DEFAULT DEFAULT", "RULE:a/b/X"],
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(NotRules):
        NameRules(text)


def test_a_pattern_that_would_keep_a_backtracking_engine_busy_does_no_harm() -> None:
    assert NameRules(r"RULE:^(a+)+$/$1/").name_of("a" * 4000 + "b") is None


def test_a_name_of_absurd_length_is_nobodys() -> None:
    assert NameRules().name_of("CN=" + "a" * 5000) is None
