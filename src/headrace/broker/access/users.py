"""Who can log in with a password, as the metadata says by now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.access.authentication.known_users import SECRET_BYTES, KnownUsers

if TYPE_CHECKING:
    from headrace.broker.metadata.view import MetadataView
    from headrace.runtime.entropy import Entropy


class UserSource(Protocol):
    """Where a listener looks up who can log in."""

    @property
    def known(self) -> KnownUsers: ...


class ClusterUsers:
    """Those of the metadata log, which is to say of all nodes."""

    def __init__(self, view: MetadataView, entropy: Entropy) -> None:
        self._view = view
        self._secret_of_node = entropy.token(SECRET_BYTES)
        self._compiled = (view.image.access.verifiers, KnownUsers(view.image.access.verifiers, self._secret_of_node))

    @property
    def known(self) -> KnownUsers:
        verifiers = self._view.image.access.verifiers
        if self._compiled[0] is not verifiers:
            self._compiled = (verifiers, KnownUsers(verifiers, self._secret_of_node))
        return self._compiled[1]
