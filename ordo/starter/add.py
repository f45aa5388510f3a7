"""A client to begin with: adds numbers, and prints the total after each. `python add.py 40 2`"""

import sys

from ordo import ClusterClient, OrdoError

ENDPOINTS = ["127.0.0.1:20000", "127.0.0.1:20010", "127.0.0.1:20020"]


def main(numbers: list[str]) -> None:
    with ClusterClient(ENDPOINTS) as client:
        for number in numbers:
            print(client.request(number.encode()).payload.decode())


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OrdoError as error:
        sys.exit(str(error))
