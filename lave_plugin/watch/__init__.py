"""A request's trace, shown: in the terminal and as a page. It knows no engine."""
