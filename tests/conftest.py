"""Measured figures at the end of a run (fixture ``report``); here, since xdist's main process loads
no other."""


def pytest_terminal_summary(terminalreporter) -> None:
    reports = [r for r in terminalreporter.stats.get("passed", []) if r.when == "call"]
    figures = [line for r in reports for name, line in r.user_properties if name == "figure"]
    if figures:
        terminalreporter.section("figures")
        for line in figures:
            terminalreporter.line(line)
