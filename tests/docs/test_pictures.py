"""The page of pictures is what the scripts would write, and every picture is there, small, in both themes."""

from __future__ import annotations

from PIL import Image

from docs import film, screenshots, tour
from docs.pictures import PICTURES


def test_every_picture_is_there():
    pictures = [picture for group in PICTURES.values() for picture in group]
    wanted = {f"{picture.name}-{theme}.png": picture for picture in pictures for theme in screenshots.THEMES}
    assert {file.name for file in screenshots.FOLDER.iterdir()} == set(wanted)
    for name, picture in wanted.items():
        file = screenshots.FOLDER / name
        assert file.stat().st_size <= screenshots.LARGEST_BYTES, name
        with Image.open(file) as image:
            assert image.size == picture.size, name


def test_the_page_shows_them_all():
    assert "\n".join(screenshots.page_lines()) == screenshots.PAGE.read_text(), "run: python -m docs.screenshots"


def test_the_tour_takes_a_minute():
    assert tour.TARGET.stat().st_size <= tour.LARGEST_BYTES
    seconds = 0.0
    with Image.open(tour.TARGET) as image:
        assert image.size == (film.WIDTH, film.HEIGHT + film.BAR)
        for frame in range(image.n_frames):
            image.seek(frame)
            image.load()
            seconds += image.info["duration"] / 1000
    assert tour.SHORTEST_S <= seconds <= tour.LONGEST_S
