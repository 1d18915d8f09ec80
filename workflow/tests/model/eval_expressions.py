"""Evaluates expressions with the second implementation: JSON lines in, JSON lines out.

The first line is the scope, a map of variables. Every further line is {"expression": text} or {"template": text}; each
is answered by one line, {"value": …} or {"error": text}.
"""
import json
import sys

import cel

# Evaluating recurses, and the expressions are small.
sys.setrecursionlimit(20_000)


def answer(question, scope):
    try:
        if "template" in question:
            return {"value": cel.plain(cel.template(question["template"], scope))}
        return {"value": cel.plain(cel.run(question["expression"], scope))}
    except cel.CelError as error:
        return {"error": str(error)}
    except Exception as error:  # an operation that Python itself refuses is an error of the expression too
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    sys.stdin.reconfigure(encoding="utf-8")
    sys.stdout.reconfigure(encoding="utf-8")
    scope = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), scope), ensure_ascii=False))


if __name__ == "__main__":
    main()
