"""What an operator asks about users who log in with a password: who there is, set a password, remove one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.access.authentication.credentials import ScramMechanism
from headrace.client.errors import refuse_unless_ok
from headrace.model.errors import ErrorCode
from headrace.wire.sasl.scram_keys import salted_password

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.client.connections.cluster import Cluster
    from headrace.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest

SALT_BYTES: Final = 32


class KnownUser(NamedTuple):
    """A user, and the iterations of each mechanism that it has a password for."""

    name: str
    mechanisms: dict[ScramMechanism, int]


class UserAdmin:
    """Users and their passwords. What a cluster keeps and is sent is salted: the password stays here."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list_users(self, names: Sequence[str] | None = None) -> list[KnownUser]:
        """All, or those of these names that there are."""
        from headrace.wire.messages.describe_user_scram_credentials import (  # noqa: PLC0415
            DescribeUserScramCredentialsRequest,
            DescribeUserScramCredentialsResponse,
            UserName,
        )

        asked = None if names is None else [UserName(name) for name in names]
        request = DescribeUserScramCredentialsRequest(asked)

        async def attempt() -> list[KnownUser]:
            answer = await self._cluster.ask_controller(request, DescribeUserScramCredentialsResponse)
            refuse_unless_ok(answer.error_code, "users", answer.error_message)
            users = []
            for result in answer.results:
                if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                    continue
                refuse_unless_ok(result.error_code, f"user {result.user!r}", result.error_message)
                kept = {ScramMechanism(info.mechanism): info.iterations for info in result.credential_infos}
                users.append(KnownUser(result.user, kept))
            return sorted(users)

        return await self._cluster.retry(attempt)

    async def set_password(
        self, name: str, password: str, mechanisms: Sequence[ScramMechanism], iterations: int
    ) -> None:
        """For these mechanisms, instead of any that the user has. It takes some milliseconds of this thread."""
        from headrace.wire.messages.alter_user_scram_credentials import (  # noqa: PLC0415
            AlterUserScramCredentialsRequest,
            ScramCredentialUpsertion,
        )

        upsertions = []
        for mechanism in mechanisms:
            salt = self._cluster.entropy.token(SALT_BYTES)
            salted = salted_password(mechanism.hash_name, password, salt, iterations)
            upsertions.append(ScramCredentialUpsertion(name, mechanism, iterations, salt, salted))
        await self._alter(AlterUserScramCredentialsRequest([], upsertions))

    async def delete_passwords(self, name: str, mechanisms: Sequence[ScramMechanism]) -> None:
        """Whoever has none left cannot log in. Refusal RESOURCE_NOT_FOUND if one of them is not there."""
        from headrace.wire.messages.alter_user_scram_credentials import (  # noqa: PLC0415
            AlterUserScramCredentialsRequest,
            ScramCredentialDeletion,
        )

        deletions = [ScramCredentialDeletion(name, mechanism) for mechanism in mechanisms]
        await self._alter(AlterUserScramCredentialsRequest(deletions, []))

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        from headrace.wire.messages.alter_user_scram_credentials import (  # noqa: PLC0415
            AlterUserScramCredentialsResponse,
        )

        async def attempt() -> None:
            answer = await self._cluster.ask_controller(request, AlterUserScramCredentialsResponse)
            for result in answer.results:
                refuse_unless_ok(result.error_code, f"user {result.user!r}", result.error_message)

        await self._cluster.retry(attempt)
