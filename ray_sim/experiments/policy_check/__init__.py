"""The contract suite in a process of its own, which a policy may crash or block: `ray-sim check-policy`.

The parent (`parent.py`) starts the child (`child.py`) with the same interpreter and the same module path. The
child runs the suite and sends one line of JSON per message through a pipe:

- ``{"checks": [name, ...]}``: the policy is constructed, and these checks follow;
- ``{"error": text, "invalid_input": bool}``: it is not, and why;
- ``{"outcome": {name, result, passed, detail}}``: one check is done;
- ``{"busy": text}``: a sign of life, when all is imported and when a kernel is compiled, which takes long.

The parent imports neither the engine nor the policy, and takes nothing but these texts from the child.
"""
