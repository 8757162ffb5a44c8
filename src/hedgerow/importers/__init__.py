"""Convert definitions of PostHog, Unleash and Flagsmith into ours. Pure: the CLI does the I/O."""
