"""What a channel raises. Apart, because the compiled half raises it too."""


class ChannelError(OSError):
    """A channel that is not made, or goes no further: the message says why."""


class PeerGone(ChannelError, EOFError):
    """The other end is gone, or wants no more: what it had sent until then has been received."""
