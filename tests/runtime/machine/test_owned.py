"""Files and folders of this user: no file or link that another user has put in their place is
opened, trusted or swept.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.machine import owned
from runtime.machine.owned import (
    Hold,
    NotOurs,
    check_folder,
    check_way,
    is_marked,
    make_folder,
    open_file,
    sweep,
)

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


@pytest.fixture(autouse=True)
def umask() -> Iterator[Callable[[int], None]]:
    """Set the usual umask; a test may set another one until its end."""
    before = os.umask(0o022)
    yield lambda mask: (os.umask(mask), None)[1]
    os.umask(before)


def marked(folder: Path) -> Path:
    make_folder(folder)
    (folder / "below").mkdir()
    (folder / "below" / "file").write_text("kept")
    return folder


# -- files


@pytest.mark.parametrize(
    "flags", [WRITING, os.O_RDONLY, os.O_RDWR | os.O_CREAT, WRITING | os.O_APPEND]
)
def test_a_file_is_not_opened_through_a_link_and_keeps_its_content(
    tmp_path: Path, flags: int
) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "link").symlink_to("precious")
    with pytest.raises(NotOurs, match="it is a link, expected a file of this user"):
        open_file(tmp_path / "link", flags)
    assert (tmp_path / "precious").read_text() == "precious"


def test_opening_a_dangling_link_creates_no_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(NotOurs, match="it is a link"):
        open_file(tmp_path / "link", WRITING)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("flags", [os.O_RDONLY, WRITING, os.O_RDWR | os.O_CREAT])
def test_a_named_pipe_is_refused_without_waiting_for_it(tmp_path: Path, flags: int) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotOurs, match="it is not a regular file"):
        open_file(tmp_path / "pipe", flags)


def test_a_socket_and_a_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # keeps the path of the socket short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for name in ("socket", "."):
            with pytest.raises(OSError, match=r"regular file|Is a directory"):
                open_file(tmp_path / name, WRITING)
    with pytest.raises(NotOurs, match="it is not a regular file"):
        open_file(tmp_path, os.O_RDONLY)


@AS_ROOT
def test_a_file_of_another_user_is_neither_read_nor_emptied(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    os.chown(tmp_path / "theirs", NOBODY, NOBODY)
    for flags in (os.O_RDONLY, WRITING):
        with pytest.raises(NotOurs, match="it is another user's file"):
            open_file(tmp_path / "theirs", flags)
    assert (tmp_path / "theirs").read_text() == "theirs"


def test_a_file_with_a_second_name_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    os.link(tmp_path / "precious", tmp_path / "journal")
    with pytest.raises(NotOurs, match="hard links"):
        open_file(tmp_path / "journal", WRITING)
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("mask", [0, 0o022, 0o077, 0o277, 0o777])
def test_a_new_file_has_its_mode_under_any_umask(
    tmp_path: Path, umask: Callable[[int], None], mask: int
) -> None:
    umask(mask)
    for mode in (0o600, 0o644):
        os.close(open_file(tmp_path / f"{mode:o}", WRITING, mode))
        assert stat.S_IMODE((tmp_path / f"{mode:o}").stat().st_mode) == mode


def test_an_existing_file_is_emptied_or_kept_as_the_flags_say(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    os.close(open_file(tmp_path / "file", os.O_RDWR | os.O_CREAT))
    assert (tmp_path / "file").read_text() == "old"
    with pytest.raises(FileExistsError):
        open_file(tmp_path / "file", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.close(open_file(tmp_path / "file", WRITING))
    assert (tmp_path / "file").read_text() == ""
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "none", os.O_RDWR)


def test_no_descriptor_is_inherited_by_a_program_that_is_started(tmp_path: Path) -> None:
    descriptor = open_file(tmp_path / "file", WRITING)
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)


# -- folders


def test_a_folder_that_others_may_write_to_is_refused_with_the_command_that_repairs_it(
    tmp_path: Path,
) -> None:
    for mode in (0o770, 0o702, 0o1777):
        tmp_path.chmod(mode)
        with pytest.raises(NotOurs, match=rf"others may write to it \(mode {mode:o}\): chmod go-w"):
            check_folder(tmp_path)
    tmp_path.chmod(0o755)
    check_folder(tmp_path)


def test_a_link_and_a_file_are_refused_as_folders(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(NotOurs, match="it is a link"):
        check_folder(tmp_path / "link")
    with pytest.raises(NotOurs, match="it is not a folder"):
        check_folder(tmp_path / "file")


@AS_ROOT
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs = marked(tmp_path / "theirs")
    os.chown(theirs, NOBODY, NOBODY)
    for check in (check_folder, make_folder, Hold.take):
        with pytest.raises(NotOurs, match="it is another user's folder"):
            check(theirs)
    assert not is_marked(theirs)


@pytest.mark.parametrize("mask", [0, 0o077, 0o777])
def test_a_new_folder_is_marked_and_private_under_any_umask(
    tmp_path: Path, umask: Callable[[int], None], mask: int
) -> None:
    umask(mask)
    make_folder(tmp_path / "made")
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700
    assert is_marked(tmp_path / "made")
    make_folder(tmp_path / "made")  # a second call has no effect


def test_a_folder_with_files_and_without_a_marker_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("of the user")
    tmp_path.chmod(0o700)
    with pytest.raises(NotOurs, match=r"it has no \.convoy: Convoy did not make it"):
        make_folder(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine"]


def test_a_marker_that_is_a_link_a_folder_or_a_pipe_marks_nothing(tmp_path: Path) -> None:
    (tmp_path / "real").touch()
    for number, make in enumerate(
        (lambda path: path.symlink_to(tmp_path / "real"), Path.mkdir, os.mkfifo)
    ):
        folder = tmp_path / str(number)
        folder.mkdir(mode=0o700)
        make(folder / owned.MARKER)
        assert not is_marked(folder)
        with pytest.raises(OSError, match=r"it is a link|Is a directory|it is not a regular file"):
            make_folder(folder)
        with pytest.raises(OSError, match=r"it is a link|Is a directory|it is not a regular file"):
            Hold.take(folder)
    sweep(tmp_path, "*")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["0", "1", "2", "real"]


def test_processes_that_make_one_folder_at_once_all_succeed(tmp_path: Path) -> None:
    problems: list[BaseException] = []
    together = threading.Barrier(8)

    def make() -> None:
        try:
            for number in range(50):
                together.wait()
                make_folder(tmp_path / str(number))
                (tmp_path / str(number) / f"{threading.get_ident()}").touch()
        except BaseException as error:  # the test reports the error
            problems.append(error)
            together.abort()

    threads = [threading.Thread(target=make) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert problems == []


# -- the way to a folder


def test_a_folder_on_the_way_that_others_write_to_is_unsafe_unless_it_has_the_sticky_bit(
    tmp_path: Path,
) -> None:
    (tmp_path / "open" / "below").mkdir(parents=True)
    for mode, safe in ((0o777, False), (0o1777, True), (0o755, True), (0o707, False)):
        (tmp_path / "open").chmod(mode)
        if safe:
            check_way(tmp_path / "open" / "below")
            continue
        with pytest.raises(NotOurs, match=f"others may write to it .mode {mode:o}.") as told:
            check_way(tmp_path / "open" / "below")
        assert told.value.filename == str(tmp_path / "open")


def test_links_on_the_way_are_followed_to_their_targets(tmp_path: Path) -> None:
    (tmp_path / "open" / "below").mkdir(parents=True)
    (tmp_path / "links").mkdir()
    for name, target in (
        ("near", "../open/below"),
        ("far", str(tmp_path / "links" / "near")),
        ("round", "round"),
    ):
        (tmp_path / "links" / name).symlink_to(target)
    check_way(tmp_path / "links" / "far")
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(NotOurs) as told:
        check_way(tmp_path / "links" / "far")
    assert told.value.filename == str(tmp_path / "open")
    with pytest.raises(OSError, match="symbolic links") as circle:
        check_way(tmp_path / "links" / "round")
    assert circle.value.errno == errno.ELOOP


@AS_ROOT
def test_a_folder_or_a_link_of_another_user_on_the_way_is_unsafe(tmp_path: Path) -> None:
    (tmp_path / "theirs" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "theirs" / "below")
    check_way(tmp_path / "link")
    os.chown(tmp_path / "link", NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(NotOurs, match="it is another user's"):
        check_way(tmp_path / "link")
    os.chown(tmp_path / "theirs", NOBODY, NOBODY)
    with pytest.raises(NotOurs, match="it is another user's"):
        check_way(tmp_path / "theirs" / "below")
