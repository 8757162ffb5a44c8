"""The flow control of a connection that holds bytes back."""

from uvicorn.protocols.http.flow_control import FlowControl


class HoldingFlowControl(FlowControl):
    """Reads no more while bytes are held, although a handler waits for more of its body."""

    is_held = False

    def resume_reading(self) -> None:
        if not self.is_held:
            super().resume_reading()
