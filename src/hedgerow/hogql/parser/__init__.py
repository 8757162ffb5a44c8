"""The HogQL parser: lexer, token stream and recursive descent."""
