"""The Model Context Protocol: tools with which an assistant reads flags and events, and proposes
changes of flags. Each tool is one or two requests to the public API with the assistant's key."""
