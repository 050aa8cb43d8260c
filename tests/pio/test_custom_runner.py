"""Reads what the C tests print; PlatformIO finds this file by its name."""

import click
from platformio.public import TestCase, TestRunnerBase, TestStatus


class CustomTestRunner(TestRunnerBase):
    """Lines "name: passed" and "name: FAILED" (tests/pio/report.h)."""

    def on_testing_line_output(self, line):
        """One line of the program's output."""
        click.echo(line, nl=False)
        name, _, verdict = line.strip().partition(": ")
        if verdict in ("passed", "FAILED"):
            status = TestStatus.PASSED if verdict == "passed" else TestStatus.FAILED
            self.test_suite.add_case(TestCase(name, status))
        if name == "done":
            self.test_suite.on_finish()
