"""What stops a rebuild; everything that was built stays, so that it can go on."""

from tidings_connect.errors import ConnectError


class RebuildError(ConnectError):
    """A read model cannot be built anew, or not be switched over; the message names the connector. What readers see stays."""

    code = "rebuild"


class CheckError(RebuildError):
    """The new read model was looked at before it was switched over to, and is not what it should be. What readers see stays."""

    code = "rebuild_check"
