"""What Dataproc runs in the image: Mirrorlake's entry, by Mirrorlake's own Python and Spark.

Dataproc puts its own Spark in front of what an image has. Nothing of it is left to the entry.
"""

import os
import sys

PYTHON = "/opt/mirrorlake/venv/bin/python"
OF_DATAPROC = ("PYTHONPATH", "PYTHONHOME", "SPARK_", "PYSPARK_", "JAVA_HOME", "HADOOP_")


def main() -> None:
    """Become the entry: its exit code is the batch's."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(OF_DATAPROC)}
    entry = [PYTHON, "-m", "dagster_mirrorlake.batches.entry", *sys.argv[1:]]
    os.execve(PYTHON, entry, kept)  # noqa: S606 - a program of the image, and no shell


if __name__ == "__main__":
    main()
