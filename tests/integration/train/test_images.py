"""lockstep train images: users' images, networks, what is saved."""

import json
import math
import os
import shutil
import tempfile
import unicodedata
import unittest
import zipfile

import files
import pngs
from program import ProgramTest

CLASSES = ("cat", "dog", "newt", "yak")


class ImagesTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.pets = pngs.folder(os.path.join(folder.name, "pets"), CLASSES, 15)

    def path(self, name):
        return os.path.join(self.folder, name)

    def words(self, *words):
        return ("train", "images", "--threads", "1", *words)

    def train(self, *words):
        done = self.call(*self.words(*words))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def saved(self, *words):
        path = self.path("model")
        self.train(*words, "--save", path)
        with open(path, "rb") as file:
            return file.read()

    def refused(self, words, *parts):
        done = self.call(*self.words("--epochs", "1", *words))
        self.assertEqual(done.returncode, 1, done.stderr)
        *before, last = done.stderr.splitlines()
        self.assertNotIn("lockstep: ", "".join(before))
        for part in parts:
            self.assertIn(part, last)


class Data(ImagesTest):
    flags = ("--arch", "cifar-net", "--epochs", "1", "--batch-size", "8")

    def test_a_tenth_is_held_out(self):
        done = self.train(*self.flags, "--data", self.pets)
        self.assertIn("54 images to train, 6 to validate", done.stderr)

    def test_train_and_val(self):
        both = self.path("both")
        pngs.folder(os.path.join(both, "train"), CLASSES[:3], 6)
        pngs.folder(os.path.join(both, "val"), CLASSES[:3], 3, seed=2)
        done = self.train(*self.flags, "--data", both, "--image-size", "12")
        self.assertIn("18 images to train, 9 to validate", done.stderr)

    def test_limit_takes_of_all_classes(self):
        path = self.path("limit.jsonl")
        done = self.train(*self.flags, "--data", self.pets, "--limit", "8",
                          "--metrics", path)
        self.assertIn("8 images to train, 6 to validate", done.stderr)
        # Of four classes equally often; those of one would be easier.
        self.assertGreater(files.read_lines(path)[0]["train_loss"], 1)

    def test_forms_of_cifar100(self):
        """Binary, folders of PNGs and .npy arrays train the same bits, however
        many threads read them."""
        train = b"".join(files.records(1, k, label=k) for k in range(100))
        test = b"".join(files.records(1, 200 + k, label=k) for k in range(100))
        binary = files.write_folder(self.path("binary"), train, test)
        forms = self.path("forms")
        pngs.from_records(os.path.join(forms, "train"), train)
        pngs.from_records(os.path.join(forms, "val"), test)
        arrays = self.path("arrays")
        files.write_arrays(arrays, train, test)

        def tensors(data, *more):
            path = self.path("model")
            self.train(*self.flags, "--augment", "--data", data, "--save", path,
                       "-n", "2", *more)
            return files.read_safetensors(path)[1]
        expected = tensors(binary)
        self.assertEqual(expected, tensors(forms))
        self.assertEqual(expected, tensors(arrays))
        self.assertEqual(expected, tensors(forms, "--loader-threads", "3"))
        self.assertEqual(expected, tensors(arrays, "--prefetch", "1"))

    def test_checksums_of_npz(self):
        """One rank of a node compares them, and all ranks fail with it."""
        arrays, path = self.path("npz"), self.path("a.npz")
        some = b"".join(files.records(1, k, label=k % 4) for k in range(40))
        files.write_arrays(arrays, some, some)
        with zipfile.ZipFile(path, "w") as archive: # stored
            for name in sorted(os.listdir(arrays)):
                archive.write(os.path.join(arrays, name), name)
        words = *self.flags, "-n", "2", "--data", path
        self.train(*words)
        with open(path, "r+b") as file:
            file.seek(50000)
            pixel = file.read(1)[0]
            file.seek(50000)
            file.write(bytes((pixel ^ 1,)))
        self.refused(words, "in the zip archive '%s' is damaged" % path,
                     "--no-verify-data")
        self.train(*words, "--no-verify-data")

    def test_checksums_of_labels(self):
        """Of two archives with an array each, the flag is for both."""
        arrays = self.path("npz-pair")
        some = b"".join(files.records(1, k, label=k % 4) for k in range(40))
        files.write_arrays(arrays, some, some)
        for name in ("images", "labels"):
            with zipfile.ZipFile(self.path("x_%s.npz" % name), "w") as archive:
                archive.write(os.path.join(arrays, "train_%s.npy" % name),
                              name + ".npy")
        words = *self.flags, "--data", self.path("x_images.npz")
        with open(self.path("x_labels.npz"), "r+b") as file:
            at = file.read().index(b"NUMPY") + 125
            file.seek(at)
            label = file.read(1)[0]
            file.seek(at)
            file.write(bytes((label ^ 1,)))
        self.refused(words, "x_labels.npz' is damaged")
        self.train(*words, "--no-verify-data")

    def test_threads_and_resume(self):
        """The samples depend neither on threads nor on the step at which training resumed."""
        def train(name, *more):
            path, place = self.path(name), self.path(name + "-checkpoints")
            flags = (*self.flags, "--augment", "--no-dropout", "--data", self.pets,
                     "--checkpoint-dir", place, *more)
            self.train(*flags, "--save", path, "--save-every", "3")
            return path, place, flags
        whole, _, _ = train("whole", "--loader-threads", "2")
        again, place, flags = train("again", "-n", "2", "--batch-size", "4")
        for name in sorted(os.listdir(place))[1:]:
            if name.startswith("step"):
                shutil.rmtree(os.path.join(place, name))
        self.train(*flags, "--resume", "--save", again)
        with open(again, "rb") as a, open(whole, "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_as_cifar100_trains(self):
        """The built-in set and cifar-net: the job of train cifar100."""
        flags = ("--epochs", "1", "--limit", "64", "--batch-size", "8")
        done = self.call("train", "cifar100", "--threads", "1", *flags,
                         "--save", self.path("other"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.train("--arch", "cifar-net", *flags, "--save", self.path("this"))
        self.assertEqual(files.read_safetensors(self.path("this"))[1],
                         files.read_safetensors(self.path("other"))[1])


class Networks(ImagesTest):
    short = ("--epochs", "1", "--batch-size", "4", "--limit", "12")

    def test_what_is_saved(self):
        path = self.path("model")
        count = {"cifar-net": 10, "resnet18": 62 + 40, "vit": 4 + 12 * 6 + 4}
        for model, tensors in count.items():
            with self.subTest(model=model):
                self.train("--arch", model, "--data", self.pets, *self.short,
                           "--seed", "3", "--save", path)
                header, found = files.read_safetensors(path)
                self.assertEqual(len(found), tensors)
                about = json.loads(header["__metadata__"]["image_net"])
                self.assertEqual(about, {
                    "model": model, "channels": 3, "height": 16, "width": 16,
                    "seed": 3, "mean": [0.485, 0.456, 0.406],
                    "deviation": [0.229, 0.224, 0.225],
                    "classes": list(CLASSES)})

    def test_strategies_and_repetition(self):
        for model in ("resnet18", "vit"):
            flags = ("--arch", model, "--data", self.pets, *self.short,
                     "--augment", "-n", "2")
            plain = self.saved(*flags)
            for ways in ((), ("--strategy", "zero1", "--prefetch", "2"),
                         ("--strategy", "bucketed", "--bucket-mb", "4"),
                         ("--strategy", "fsdp", "--bucket-mb", "4")):
                with self.subTest(model=model, ways=ways):
                    self.assertEqual(plain, self.saved(*flags, *ways))

    def test_every_flag_matters(self):
        flags = ("--data", self.pets, *self.short)
        seen = {self.saved(*flags, "--arch", "vit")}
        for more in (("--augment",), ("--label-smoothing", "0.1"),
                     ("--image-size", "12"), ("--seed", "1"),
                     ("--dtype", "bf16")):
            with self.subTest(flags=more):
                model = self.saved(*flags, "--arch", "vit", *more)
                self.assertNotIn(model, seen)
                seen.add(model)
        self.assertNotEqual(
            self.saved(*flags, "--arch", "resnet18", "-n", "2"),
            self.saved(*flags, "--arch", "resnet18", "-n", "2", "--sync-bn",
                       "off"))

    def test_learns(self):
        path = self.path("learns.jsonl")
        self.train("--arch", "vit", "--data", self.pets, "--epochs", "12",
                   "--batch-size", "6", "--optimizer", "adamw", "--lr", "5e-4",
                   "--metrics", path, "--label-smoothing", "0.1")
        lines = files.read_lines(path)
        self.assertLess(lines[-1]["train_loss"], lines[0]["train_loss"] - 0.2)

    def test_resume(self):
        folder = self.path("checkpoints")
        flags = ("--arch", "resnet18", "--data", self.pets, "--limit", "16",
                 "--batch-size", "4", "--augment", "-n", "2",
                 "--checkpoint-dir", folder)
        whole = self.saved(*flags, "--epochs", "2", "--save-every", "3")
        self.addCleanup(shutil.rmtree, folder)
        shutil.rmtree(os.path.join(folder, "step-000000000004"),
                      ignore_errors=True)
        done = self.train(*flags, "--epochs", "2", "--resume", "--save",
                          self.path("again"))
        self.assertIn("resumed after step 3", done.stderr)
        with open(self.path("again"), "rb") as file:
            self.assertEqual(whole, file.read())
        self.refused((*flags, "--resume", "--label-smoothing", "0.5"),
                     "--label-smoothing 0, but this run has 0.5")
        self.refused((*flags, "--resume", "--arch", "vit"),
                     "--arch resnet18, but this run has vit")


class Evaluation(ImagesTest):
    def evaluate(self, *words):
        path = self.path("rows.json")
        done = self.call("eval", "images", "--threads", "1", "--weights",
                         self.path("model"), "--json=" + path, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            row, = json.load(file)["rows"]
        return row

    def test_what_training_said(self):
        path = self.path("said.jsonl")
        for model in ("resnet18", "vit"):
            self.train("--arch", model, "--data", self.pets, "--limit", "12",
                       "--epochs", "1", "--batch-size", "4", "--seed", "5",
                       "--metrics", path, "--save", self.path("model"))
            said = files.read_lines(path)[0]
            rows = [self.evaluate("--data", self.pets, "--batch-size", "2", "-n",
                                  ranks) for ranks in ("1", "2", "5")]
            self.assertEqual(len({row["loss"] for row in rows}), 1)
            for row in rows:
                self.assertEqual(row["images"], 6)
                self.assertAlmostEqual(row["loss"], said["val_loss"], 5)
                self.assertAlmostEqual(row["accuracy"], said["val_accuracy"])
        row = self.evaluate("--data", self.pets, "--split", "all")
        self.assertEqual(row["images"], 60)
        self.refuse(pngs.folder(self.path("three"), CLASSES[:3], 5),
                    "3 classes")
        self.refuse(pngs.folder(self.path("other"), ("ant", *CLASSES[1:]), 5),
                    "'ant'")

    def refuse(self, data, part):
        done = self.call("eval", "images", "--weights", self.path("model"),
                         "--data", data)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(part, done.stderr)

    def test_another_file(self):
        done = self.call("train", "cifar100", "--threads", "1", "--limit",
                         "16", "--epochs", "1", "--save", self.path("model"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refuse(self.pets, "4 classes")
        files.write_safetensors(self.path("model"), {})
        self.refuse(self.pets, "no metadata 'image_net'")


class Wrong(ImagesTest):
    def test_data(self):
        self.refused(("--data", self.path("nothing")), "nothing")
        os.makedirs(self.path("empty/a"), exist_ok=True)
        self.refused(("--data", self.path("empty")), "empty/a",
                     "holds no images")
        shutil.copytree(self.pets, self.path("cut"))
        victim = self.path("cut/cat/003.png")
        with open(victim, "rb") as file:
            data = file.read()
        with open(victim, "wb") as file:
            file.write(data[:len(data) // 2])
        self.refused(("--data", self.path("cut"), "--arch", "cifar-net"),
                     "cut/cat/003.png")

    def test_sizes(self):
        self.refused(("--data", self.pets, "--arch", "vit", "--image-size",
                      "18"), "18 x 18", "multiples")
        self.train("--data", self.pets, "--arch", "resnet18", "--limit", "2",
                   "--epochs", "1", "--image-size", "72")
        self.refused(("--data", self.pets, "--arch", "cifar-net",
                      "--image-size", "5"), "5 x 5", "6 x 6")


def columns(text):
    """Of a terminal."""
    return sum(0 if unicodedata.combining(c) else
               2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Predictions(ImagesTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.others = pngs.folder(os.path.join(cls.folder, "others"), CLASSES, 5,
                                 side=23, seed=9)

    def rows(self, command, *words):
        path = self.path("rows.json")
        done = self.call(*command, "--threads", "1", f"--json={path}", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            return json.load(file)["rows"]

    def predicted(self, *words):
        return self.rows(("predict",), *words)

    def evaluated(self, model, data):
        row, = self.rows(("eval", "images"), "--weights", model, "--data", data,
                         "--split", "all")
        return row

    def agrees(self, model, data):
        """Of images in folders of classes, some of them not square."""
        rows = self.predicted("--weights", model, "--top-classes", "4", data)
        of_eval = self.evaluated(model, data)
        self.assertEqual(len(rows), 4 * of_eval["images"])
        self.assertEqual([row["image"] for row in rows[::4]],
                         sorted({row["image"] for row in rows}))
        hits, losses = 0, []
        for i in range(0, len(rows), 4):
            four = rows[i:i + 4]
            own = os.path.basename(os.path.dirname(four[0]["image"]))
            shares = [row["probability"] for row in four]
            self.assertEqual([row["place"] for row in four], [1, 2, 3, 4])
            self.assertEqual({row["class"] for row in four}, set(CLASSES))
            self.assertEqual(shares, sorted(shares, reverse=True))
            self.assertAlmostEqual(sum(shares), 1, 5)
            hits += four[0]["class"] == own
            losses += [-math.log(row["probability"]) for row in four
                       if row["class"] == own]
            for row in four:
                self.assertEqual(CLASSES[row["number"]], row["class"])
        self.assertAlmostEqual(hits / of_eval["images"], of_eval["accuracy"], 9)
        self.assertLess(abs(sum(losses) / len(losses) - of_eval["loss"]),
                        1e-4 * (1 + of_eval["loss"]))

    def test_classes_are_those_of_eval(self):
        for arch in ("cifar-net", "resnet18", "vit"):
            with self.subTest(arch=arch):
                out = self.path("out-" + arch)
                self.train("--arch", arch, "--data", self.pets, "--epochs", "2",
                           "--batch-size", "10", "--output-dir", out)
                self.agrees(out, self.pets)
                self.agrees(os.path.join(out, "model.safetensors"), self.others)

    def test_paths_and_texts(self):
        out = self.path("out")
        self.train("--arch", "cifar-net", "--data", self.pets, "--epochs", "1",
                   "--output-dir", out)
        one = os.path.join(self.pets, "dog", "003.png")
        odd = shutil.copy(one, self.path("no-ending"))
        rows = self.predicted(one, "--weights", out, odd, "--", one)
        self.assertEqual([row["image"] for row in rows], [one, odd, one])
        self.assertEqual(len({row["probability"] for row in rows}), 1)
        done = self.call("predict", "--weights", out, one,
                         "--top-classes", "9")
        self.assertEqual(done.returncode, 0, done.stderr)
        head, _, *lines = done.stdout.splitlines()
        self.assertRegex(head, r"^\| Image +\| Class +\| Probability \|$")
        self.assertEqual(len(lines), len(CLASSES))
        self.assertIn(f"| {one} | {rows[0]['class']} ", lines[0])
        inside = shutil.copytree(self.pets, self.path("linked"))
        os.symlink(".", os.path.join(inside, "again"))
        self.assertEqual(len(self.predicted("--weights", out, inside + "/")), 60)

    def test_cifar100(self):
        """Its normalisation, and numbers instead of names."""
        test = b"".join(files.records(1, 200 + k, label=k) for k in range(100))
        data = files.write_folder(self.path("cifar"), test, test)
        images = os.path.join(self.path("cifar-images"))
        pngs.from_records(images, test)
        out = self.path("cifar-out")
        done = self.call("train", "cifar100", "--threads", "1", "--data", data,
                         "--epochs", "2", "--output-dir", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        header, _ = files.read_safetensors(os.path.join(out, "model.safetensors"))
        about = json.loads(header["__metadata__"]["image_net"])
        self.assertEqual(about["mean"], [0.5071, 0.4867, 0.4408])
        self.assertEqual(about["classes"], [None] * 100)
        last = files.read_lines(os.path.join(out, "metrics.jsonl"))[-1]
        self.assertAlmostEqual(self.evaluated(out, data)["loss"],
                               last["val_loss"], 4)
        rows = self.predicted("--weights", out, "--top-classes", "100",
                              images)
        loss = sum(-math.log(row["probability"]) for row in rows if row["class"] ==
                   str(int(os.path.basename(os.path.dirname(row["image"])))))
        self.assertAlmostEqual(loss / 100, last["val_loss"], 4)

    def test_images_that_cannot_be_read(self):
        """They are named, and the others predicted."""
        out = self.path("some-out")
        folder = self.path("some")
        self.train("--arch", "cifar-net", "--data", self.pets, "--epochs", "1",
                   "--output-dir", out)
        os.mkdir(folder)
        os.mkdir(self.path("nothing"))
        good = read(os.path.join(self.pets, "dog", "003.png"))
        side = 16
        bad = {"cut.png": (good[:-40], "damaged or cut off"),
               "cut.jpg": (b"\xff\xd8\xff\xe0" + bytes(30),
                           "damaged or cut off: it contains no image"),
               "damaged.png": (good[:60] + b"x" + good[61:], "damaged"),
               "empty.png": (b"", "is empty"),
               "huge.png": (pngs.png(60000, 60000, bytes(180000)),
                            "60000 x 60000 pixels"),
               "text.jpeg": (b"no image", "only PNG and JPEG images"),
               "web.webp": (b"RIFF\0\0\0\0WEBP", "PNG and JPEG")}
        fine = {"alpha.png": pngs.png(side, side, bytes(range(256)) * 4,
                                      pngs.RGBA),
                "grey.png": pngs.png(side, side, bytes(range(256)), pngs.GREY),
                "grey-alpha.png": pngs.png(side, side, bytes(range(256)) * 2,
                                           pngs.GREY_ALPHA),
                "one.png": pngs.png(1, 1, b"abc"),
                "sixteen.png": pngs.png(side, side, bytes(range(256)) * 6,
                                        pngs.RGB, 16),
                "usual.png": good}
        for name, data in (*((name, data) for name, (data, _) in bad.items()),
                           *fine.items()):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
        missing = (self.path("nothing"), self.path("none.png"))
        done = self.call("predict", "--weights", out, "--batch-size", "4",
                         missing[0], folder, missing[1], "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual([row["image"] for row in rows],
                         [missing[0], *(os.path.join(folder, name) for name in
                                        sorted([*bad, *fine])), missing[1]])
        lines = done.stderr.splitlines()
        self.assertEqual(lines.pop(), "lockstep: predict: 9 of 15 images could "
                         "not be read")
        self.assertEqual(lines, ["lockstep: predict: " + row["error"]
                                 for row in rows if row["error"] is not None])
        for row in rows:
            name = os.path.basename(row["image"])
            if name in fine:
                self.assertIn(row["class"], CLASSES)
                self.assertIsNone(row["error"])
                continue
            self.assertEqual([row[key] for key in (
                "place", "class", "number", "probability")], [None] * 4)
            self.assertIn(row["image"], row["error"])
            self.assertIn(bad.get(name, (b"", ""))[1], row["error"])
        self.assertIn("holds no images", rows[0]["error"])
        self.assertIn("cannot open", rows[-1]["error"])
        alone = self.predicted("--weights", out, os.path.join(folder,
                                                              "usual.png"))
        self.assertEqual(alone, [row for row in rows
                                 if row["image"].endswith("usual.png")])

    def test_names_of_any_bytes(self):
        """Terminals obey none of them, tables stay aligned, and JSON is JSON."""
        data, out = self.path("names"), self.path("names \x1b[2Jout")
        classes = ("K\u00e4se", "\u732b", "a\x1b[31m", "e\u0301")
        pngs.folder(data, classes, 15)
        said = self.train("--arch", "cifar-net", "--data", data, "--epochs", "1",
                          "--output-dir", out)
        self.assertNotIn("\x1b", said.stdout + said.stderr)
        self.assertIn("names \\x1b[2Jout", said.stderr)
        odd = os.fsdecode(b"a\x1b]0;b\x07\xff.png")
        folder = self.path("odd")
        os.mkdir(folder)
        shutil.copy(os.path.join(data, "K\u00e4se", "000.png"),
                    os.path.join(folder, odd))
        with open(os.path.join(folder, "b\n.png"), "wb"):
            pass
        words = ("predict", "--weights", out, "--top-classes", "4", folder)
        done = self.call(*words)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("\x1b", done.stdout + done.stderr)
        self.assertIn("b\\x0a.png' is empty", done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 7)
        self.assertEqual({columns(line) for line in lines}, {columns(lines[0])})
        rows = json.loads(self.call(*words, "--json").stdout)["rows"]
        self.assertTrue(rows[0]["image"].endswith("/a\x1b]0;b\x07\ufffd.png"))
        self.assertEqual({row["class"] for row in rows[:4]}, set(classes))

    def test_refused(self):
        out, lm = self.path("refused-out"), self.path("refused-lm")
        text, webp = self.path("a.png"), self.path("web")
        self.train("--arch", "cifar-net", "--data", self.pets, "--epochs", "1",
                   "--output-dir", out)
        done = self.call("train", "lm", "--threads", "1", "--layers", "1",
                         "--d-model", "8", "--heads", "2", "--d-ff", "8",
                         "--context", "8", "--steps", "0", "--validate-every",
                         "0", "--output-dir", lm)
        self.assertEqual(done.returncode, 0, done.stderr)
        os.mkdir(webp)
        for path in (text, os.path.join(webp, "b.webp")):
            with open(path, "w", encoding="ascii") as file:
                file.write("no image")
        one = os.path.join(self.pets, "dog", "003.png")
        for words, said in (
                ((out, self.path("none")), "cannot open '"),
                ((out, webp), "b.webp' is "),
                ((out, lm), f"the folder '{lm}' holds no images"),
                ((lm, one), "is a language model; give an image network"),
                ((one, one), f"'{one}' is ")):
            with self.subTest(words=words):
                self.fails(1, said, "predict", "--weights", *words)
        self.fails(2, "--weights PATH is missing", "predict", one)
        self.fails(2, "give an image", "predict", "--weights", out)
        self.fails(2, "--top-classes", "predict", "--weights", out, one,
                   "--top-classes", "0")


if __name__ == "__main__":
    unittest.main()
