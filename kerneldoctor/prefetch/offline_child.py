"""Asks the installed kernels library whether it finds kernels offline; imports no kernel and asks no network.

Run by its path under the interpreter that has torch and kernels, where kerneldoctor need not be installed.
"""

import json
import sys

MARK = "kerneldoctor-offline "


def main() -> None:
    """Print one line: for each kernel of the request in argv[1] its folder, or why it is not found."""
    del sys.path[0]  # the folder of this script
    import kernels

    answers = []
    for kernel in json.loads(sys.argv[1]):
        asked = {"version": kernel["version"]} if kernel["version"] else {"revision": kernel["revision"]}
        try:
            if kernel["local"]:  # install_kernel knows nothing of LOCAL_KERNELS
                found = kernels.has_kernel(kernel["repo"], check_arch=False, trust_remote_code=True, **asked)
                answers.append({"found": bool(found), "text": ""})
            else:
                path = kernels.install_kernel(kernel["repo"], local_files_only=True, trust_remote_code=True, **asked)
                answers.append({"found": True, "text": str(path)})
        except TypeError as error:  # a release whose functions take other arguments
            answers.append({"found": None, "text": str(error)})
        except Exception as error:  # noqa: BLE001 - whatever the library says is the answer
            answers.append({"found": False, "text": f"{type(error).__name__}: {error}"})
    answer = {"release": _release(), "kernels": answers}
    sys.stdout.write(f"\n{MARK}{json.dumps(answer)}\n")


def _release() -> str:
    from importlib.metadata import version

    return version("kernels")


if __name__ == "__main__":
    main()
