"""Chat completions, and the turn of a chat that other protocols build on."""
