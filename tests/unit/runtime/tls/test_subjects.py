"""A certificate's subject is written as Java writes it: rules of principals are written for that."""

from __future__ import annotations

import pytest

from headrace.runtime.tls.certificates import _Element, distinguished_name

_OF_MANY_KINDS = (
    "308181310b3009060355040513023132310b3009060355040913027374310a3008060355040713014c310a30080603550408"
    "1301533111300f060a0992268993f22c64011916017831123010060a0992268993f22c640101130275313110300e06035504"
    "030c074ac3bc7267656e3114301206092a864886f70d01090116056140622e63"
)


# As `new X500Principal(…).getEncoded()` and `getName()` of OpenJDK 17 give them.
@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (
            "302e310e300c060355040b13052078207920311c301a06035504030c13612c622b6322645c653c663e673b683d69236a",
            r"CN=a\,b\+c\"d\\e\<f\>g\;h\=i\#j,OU=\ x y" + "\\ ",
        ),
        (
            "302b310b3009060355040613024445310c300a060355040a0c03412342310e300c06035504030c05236c656164",
            r"CN=\#lead,O=A\#B,C=DE",
        ),
        (
            _OF_MANY_KINDS,
            "1.2.840.113549.1.9.1=#16056140622e63,CN=Jürgen,UID=u1,DC=x,ST=S,L=L,STREET=st,2.5.4.5=#13023132",
        ),
        ("3025310d300b060355040a1304782020793114300806035504031301613008060355040b130162", "CN=a+OU=b,O=x  y"),
        ("300b3109300706035504031300", "CN="),
        ("3010310e300c06035504030c056100620a63", "CN=a\\00b\nc"),
        ("3000", ""),
    ],
)
def test_a_subject_as_java_writes_it(encoded: str, text: str) -> None:
    assert distinguished_name(_Element.at(bytes.fromhex(encoded), 0)) == text
