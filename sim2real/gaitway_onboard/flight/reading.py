"""Read a flight back as numpy columns, whole or cut off."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from gaitway_files.json_files import parse_json
from gaitway_files.packed import unpack
from gaitway_files.reading import GIB, MIB, NAME, FileError, check_texts, one_line, open_regular, printable
from mcap.exceptions import InvalidMagic
from mcap.records import Attachment, Channel, Chunk, Message, Metadata, Schema
from mcap.stream_reader import StreamReader, breakup_chunk
from mcap.writer import CompressionType, Writer
from numpy.typing import NDArray

from ..bundle.contract import CONTRACT_FILE, Contract
from ..bundle.parts import ESTIMATE
from ..interface import Health, Remote, Signals, pressed
from ..wire.idl import HEADER
from .encoder import COMMAND, EVENT, FRAME, POLICY, STATE, TOPICS
from .file import CHUNK_BYTES, END, METADATA, VERSION, check_path
from .messages import FlightError, MessageType, unpack_event, unpack_string

METADATA_CHARACTERS = 1_000_000
"""Most characters of one entry of a flight's metadata."""
FLIGHT_BYTES = 16 * GIB
"""Most of a file; the recorder keeps a flight within 2 GB."""
BLOCK_BYTES = 16 * MIB
"""Most that one chunk unpacks to; ours have 256 kB."""
UNPACKED_BYTES = 16 * GIB
UNPACKED_START, UNPACKED_RATIO = 64 * MIB, 100
"""A file unpacks to this much, and so many times its size, at most; a robot that stands still reaches a tenth."""
MODE_CHARACTERS = 256

CHANNELS = {topic: channel for channel, topic in TOPICS.items()}


class ForeignRecording(FlightError):
    """An MCAP file of another program."""


@dataclass(frozen=True)
class Event:
    """A change of mode, a stop, a trip, a note."""

    time: float
    """Robot's clock [s]."""
    kind: str
    text: str


@dataclass(frozen=True)
class Columns:
    """All messages of one kind, (N, ...) each, in the types they were recorded in. Attributes are fields."""

    values: dict[str, NDArray]
    lost: int
    """Messages that were told and are not here, from the first one on; without the oldest parts of a long flight."""

    def __getattr__(self, name: str) -> NDArray:
        values = self.__dict__.get("values", {})
        if name not in values:
            raise AttributeError(f"this flight has no {name!r}; it has {', '.join(values)}")
        found: NDArray = values[name]
        return found

    def __len__(self) -> int:
        return len(self.values["time"]) if self.values else 0

    def __contains__(self, name: str) -> bool:
        return name in self.values


@dataclass(frozen=True, kw_only=True)
class Flight:
    """A flight as recorded. N states, M frames, P policy steps; J joints in the robot's order."""

    path: Path
    joint_names: tuple[str, ...]
    metadata: dict[str, str]
    """Metadata that :func:`gaitway_onboard.flight.opening.open_flight` wrote; values other than text are JSON."""
    contract_yaml: bytes | None
    """contract.yaml of the bundle that flew."""
    state: Columns
    """The fields of :class:`gaitway_onboard.interface.Signals` that this robot has, (N, ...), with its stamp
    as ``time``; of :class:`Health` ``tick corrupt motor_temperature motor_lost battery other_writers``, and of its
    remote ``left_x left_y right_x right_y buttons``. ``has(name)`` says which states have an optional field."""
    frame: Columns
    """``time`` (M,), ``mode`` (M,) of str, ``targets stiffness damping asked`` (M, J)."""
    policy: Columns
    """``time`` (P,), ``command`` (P, 3), ``memory`` (P, S), ``action`` and ``targets`` (P, J), ``late`` (P,), and what
    the policy estimated for itself: ``estimated_base_lin_vel`` (P, 3) for example."""
    events: tuple[Event, ...]
    truncated: bool
    """The file was not finished, since its recorder was killed, or it was cut off or damaged later."""
    trouble: str
    """Reason why recording ended before the flight did, such as a full disk; empty if it did not, or it is not known.
    """

    @property
    def robot(self) -> str:
        """Name of the robot, "" if the recording does not say."""
        return printable(self.metadata.get("robot", ""), NAME)

    @property
    def hardware(self) -> str:
        """Name for ``--robot`` of the robot that flew, "" if the recording does not say."""
        return printable(self.metadata.get("hardware", ""), NAME)

    @property
    def start(self) -> float:
        """Start of the recording, robot's clock [s]."""
        return float(min(self._edges(0)))

    @property
    def seconds(self) -> float:
        """Time from the first record to the last [s]."""
        return float(max(self._edges(-1)) - min(self._edges(0)))

    def _edges(self, which: int) -> list[float]:
        found = [columns.time[which] for columns in (self.state, self.frame, self.policy) if len(columns)]
        return [*found, *([self.events[which].time] if self.events else [])]

    @property
    def recorded(self) -> float:
        """Time from the first record to the last that is not an event [s]."""
        found = [columns.time[-1] for columns in (self.state, self.frame, self.policy) if len(columns)]
        return float(max(found, default=self.start) - self.start)

    @property
    def dropped(self) -> dict[str, int]:
        """Records that the recorder had no room for, or that were told after its end."""
        return {"state": self.state.lost, "frame": self.frame.lost, "policy": self.policy.lost}

    @cached_property
    def contract(self) -> Contract | None:
        """Contract of the bundle that flew; raises :class:`BundleError` if the attachment was edited."""
        if self.contract_yaml is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / CONTRACT_FILE).write_bytes(self.contract_yaml)
            return Contract.load(folder)

    @property
    def follows_velocity(self) -> bool:
        """True if the commands are velocities, as they are where the flight has no contract."""
        return self.contract is None or self.contract.follows_velocity

    @property
    def estimates(self) -> tuple[str, ...]:
        """Fields of :attr:`policy` that it estimated for itself."""
        return tuple(name for name in self.policy.values if name.startswith(ESTIMATE))

    def has(self, name: str) -> NDArray[np.bool_]:
        """States that have the optional field ``name``, (N,)."""
        if f"has_{name}" in self.state:
            return self.state.values[f"has_{name}"]
        return np.full(len(self.state), name in self.state)

    def signals(self, index: int) -> Signals:
        """State ``index`` as the controller saw it; names of other writers are not kept, their number is."""
        row = {name: values[index] for name, values in self.state.values.items()}

        def get(name: str) -> NDArray | None:
            return row[name] if name in row and row.get(f"has_{name}", True) else None

        health = None
        if row["has_health"]:
            health = Health(
                tick=int(row["tick"]) if row["has_tick"] else None,
                corrupt=int(row["corrupt"]),
                motor_temperature=get("motor_temperature"),
                motor_lost=get("motor_lost"),
                battery=float(row["battery"]) if row["has_battery"] else None,
                other_writers=("unknown",) * int(row["other_writers"]),
                remote=Remote(
                    left=(float(row["left_x"]), float(row["left_y"])),
                    right=(float(row["right_x"]), float(row["right_y"])),
                    buttons=pressed(int(row["buttons"])),
                )
                if row["has_remote"]
                else None,
            )
        names = ("base_lin_vel", "height_scan", "accelerometer", "joint_torque", "foot_force")
        return Signals(
            joint_pos=row["joint_pos"], joint_vel=row["joint_vel"], imu_quat_wxyz=row["imu_quat_wxyz"],
            gyro=row["gyro"], stamp=float(row["time"]), health=health, **{name: get(name) for name in names},
        )  # fmt: skip


def read_flight(path: str | Path) -> Flight:
    """Read ``path`` and, if it is the newest part of a long flight, the parts before it.

    A file that was not finished is read as far as it goes. Raises :class:`FlightError` for a file that is no flight, of
    another version, or without a single record.
    """
    path = Path(path)
    if not path.is_file():
        raise FlightError(f"no flight at {path}" + (": it is a folder" if path.is_dir() else ""))
    try:
        return _read(path)
    except FlightError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else one_line(error)
        raise FlightError(f"{path} is damaged: what it says of its records makes no sense ({reason})") from None


def _read(path: Path) -> Flight:
    last = _Part(path)
    if not last.metadata:
        raise ForeignRecording(f"{path} is an MCAP file, but no flight of Gaitway's recorder")
    if (found := last.metadata.get("version")) != VERSION:
        raise FlightError(
            f"{path} is a flight of version {found!r} and this Gaitway reads {VERSION!r}: use the Gaitway that wrote it"
        )
    pattern = f"{path.stem}.[0-9][0-9][0-9][0-9]{path.suffix}"
    parts = [_Part(part) for part in sorted(path.parent.glob(pattern))]
    parts = [part for part in parts if part.metadata.get("id") == last.metadata["id"]] + [last]
    if not any(part.messages for part in parts):
        raise FlightError(f"{path} has no record: the flight ended before it began, or the file is cut off too early")
    streams = {channel: _columns(channel, parts, last.told(channel)) for channel in (STATE, FRAME, POLICY)}
    return Flight(
        path=path,
        joint_names=_joint_names(parse_json(last.metadata["joint_names"], f"{path}: joint_names")),
        metadata=last.metadata,
        contract_yaml=last.attachments.get(CONTRACT_FILE),
        state=streams[STATE],
        frame=streams[FRAME],
        policy=streams[POLICY],
        events=_events(parts),
        truncated=any(part.truncated for part in parts),
        trouble=last.end.get("trouble", ""),
    )


def read_messages(path: str | Path, kinds: Collection[str]) -> tuple[dict[str, list[tuple[int, bytes]]], bool]:
    """Messages of other programs in an MCAP file: by topic, the time [ns] at which each was stored, and its content.

    Only those of the schemas ``kinds``, such as "sensor_msgs/msg/Imu". The second value says whether all could be read.
    """
    part = _Part(Path(path), kinds=frozenset(kinds))
    found: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
    for number, messages in part.messages.items():
        found[part.channels[number].topic] += [(message.log_time, message.data) for message in messages]
    return found, not part.truncated


class _Bounded:
    """A file of which no more is asked than is left of it, whatever lengths stand in it."""

    def __init__(self, stream: IO[bytes]):
        self.stream, self.end = stream, os.fstat(stream.fileno()).st_size

    def read(self, length: int = -1) -> bytes:
        return self.stream.read(min(length, max(0, self.end - self.stream.tell())))


def _joint_names(names: Any) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FlightError("joint_names in the flight's metadata is no list of names")
    return tuple(names)


@dataclass
class _Part:
    """One file: its records by channel, and each channel's definition."""

    path: Path
    metadata: dict[str, str] = field(default_factory=dict)
    end: dict[str, str] = field(default_factory=dict)
    attachments: dict[str, bytes] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)
    schemas: dict[int, Schema] = field(default_factory=dict)
    messages: dict[int, list[Message]] = field(default_factory=lambda: defaultdict(list))
    """Messages by the file's own channel number."""
    truncated: bool = False
    kinds: frozenset[str] | None = None
    """Names of the schemas whose messages are kept; None keeps all."""

    def __post_init__(self) -> None:
        try:
            with open(open_regular(self.path, FLIGHT_BYTES), "rb") as stream:
                for record in self._records(StreamReader(cast("IO[bytes]", _Bounded(stream)), emit_chunks=True)):
                    self._take(record)
        except FileError as error:
            raise FlightError(str(error)) from None
        except ForeignRecording:
            raise
        except InvalidMagic:
            if not self.metadata:
                raise FlightError(f"{self.path} is not an MCAP file") from None
            self.truncated = True
        except Exception:  # the end of the file, checksums, decompressors: their errors share no base class
            self.truncated = True
        if not self.metadata and not self.messages and self.truncated:
            raise FlightError(f"{self.path} is cut off before its first record: nothing can be recovered")

    def _records(self, reader: StreamReader) -> Iterator[object]:
        most = min(UNPACKED_BYTES, UNPACKED_START + UNPACKED_RATIO * self.path.stat().st_size)
        for record in reader.records:
            if not isinstance(record, Chunk):
                yield record
                continue
            if (most := most - record.uncompressed_size) < 0:
                raise FileError(self.path, "unpacks to more than a flight of its size could: it is damaged, or forged")
            try:
                data = unpack(record.data, record.compression, record.uncompressed_size, self.path, BLOCK_BYTES)
                inside = breakup_chunk(dataclasses.replace(record, data=data, compression=""), validate_crc=True)
            except Exception:  # one damaged chunk does not take those after it along
                self.truncated = True
                continue
            yield from inside

    def _take(self, record: object) -> None:
        if isinstance(record, Message):
            if self.kinds is None and not self.metadata:
                raise ForeignRecording(f"{self.path} is an MCAP file, but no flight of Gaitway's recorder")
            if self.kinds is None or self._kind(record.channel_id) in self.kinds:
                self.messages[record.channel_id].append(record)
        elif isinstance(record, Channel):
            self.channels[record.id] = record
        elif isinstance(record, Schema):
            self.schemas[record.id] = record
        elif isinstance(record, Attachment):
            self.attachments[record.name] = record.data
        elif isinstance(record, Metadata) and record.name == METADATA:
            self.metadata = check_texts(record.metadata, self.path, METADATA_CHARACTERS)
        elif isinstance(record, Metadata) and record.name == END:
            self.end = check_texts(record.metadata, self.path, METADATA_CHARACTERS)

    def _kind(self, channel: int) -> str:
        """Name of the schema of a channel; empty if the file does not say."""
        found = self.channels.get(channel)
        schema = None if found is None else self.schemas.get(found.schema_id)
        return "" if schema is None else schema.name

    def told(self, channel: int) -> int:
        """Messages that the recorder was told in all, as far as the file says."""
        try:
            return int(parse_json(self.end["told"], "told")[TOPICS[channel]])
        except (KeyError, TypeError, ValueError):
            return 0

    def of(self, channel: int) -> Iterator[tuple[Channel, Schema, list[Message]]]:
        """Messages of one of our channels, in blocks of one definition."""
        for number, messages in self.messages.items():
            found = self.channels.get(number)
            if found is not None and CHANNELS.get(found.topic) == channel:
                yield found, self.schemas[found.schema_id], messages


def _columns(channel: int, parts: list[_Part], told: int) -> Columns:
    blocks: list[dict[str, NDArray]] = []
    sequences: list[int] = []
    for part in parts:
        for _, schema, messages in part.of(channel):
            blocks.append(_block(MessageType.parse(schema.name, schema.data.decode()), messages))
            sequences += [message.sequence for message in messages]
    values = _joined(blocks)
    if channel == POLICY and values:
        numbers = [name for name in values if name.startswith(COMMAND)]
        values["command"] = np.stack([values.pop(name) for name in numbers], 1)
    order = np.argsort(np.array(sequences, dtype=np.int64), kind="stable")
    lost = max(told, max(sequences, default=-1) + 1) - min(sequences, default=0) - len(sequences)
    return Columns({name: value[order] for name, value in values.items()}, lost)


def _block(layout: MessageType, messages: list[Message]) -> dict[str, NDArray]:
    dtype, start = layout.dtype, len(HEADER)
    end = start + dtype.itemsize
    rows = np.frombuffer(b"".join(message.data[start:end] for message in messages), dtype)
    values = {field.name: np.ascontiguousarray(rows[field.name]) for field in layout.fields}
    if layout.optional:
        present = values.pop("present")
        for bit, name in enumerate(layout.optional):
            values[f"has_{name}"] = (present >> bit & 1).astype(bool)
    if layout.text:
        texts = [unpack_string(message.data, dtype.itemsize) for message in messages]
        if max(map(len, texts)) > MODE_CHARACTERS:
            raise FlightError(f"{layout.name}: {layout.text} has more than {MODE_CHARACTERS} characters")
        values[layout.text] = np.array(texts)
    return values


def _joined(blocks: list[dict[str, NDArray]]) -> dict[str, NDArray]:
    """Blocks of different definitions below each other; rows without a field have zeros there."""
    values: dict[str, NDArray] = {}
    for name in dict.fromkeys(name for block in blocks for name in block):
        like = next(block[name] for block in blocks if name in block)
        columns = [
            block[name] if name in block else np.zeros((len(block["time"]), *like.shape[1:]), like.dtype)
            for block in blocks
        ]
        values[name] = np.concatenate(columns)
    return values


def _events(parts: list[_Part]) -> tuple[Event, ...]:
    """Every event once: each part repeats those before it."""
    found: dict[tuple[int, str, str], Event] = {}
    for part in parts:
        for channel, _, messages in part.of(EVENT):
            zero = int(channel.metadata["clock_zero_ns"])
            for message in messages:
                kind, text = unpack_event(message.data)
                event = Event((message.log_time - zero) / 1e9, kind, text)
                found.setdefault((message.sequence, kind, text), event)
    return tuple(event for _, event in sorted(found.items(), key=lambda item: item[0][0]))


def recover(path: str | Path, out: str | Path) -> None:
    """Write all that can be read of a flight that was not finished as a finished file, ``out``, for other programs."""
    path, out = Path(path), Path(out)
    check_path(out)
    part = _Part(path)
    if not part.metadata:
        raise FlightError(f"{path} is an MCAP file, but no flight of Gaitway's recorder")
    start = int(part.metadata["start_ns"])
    with open(out, "xb") as stream:
        writer = Writer(stream, chunk_size=CHUNK_BYTES, compression=CompressionType.ZSTD)
        writer.start(profile="ros2", library="gaitway")
        writer.add_metadata(METADATA, part.metadata)
        for name, content in part.attachments.items():
            writer.add_attachment(start, start, name, "text/yaml", content)
        schemas = {
            number: writer.register_schema(schema.name, schema.encoding, schema.data)
            for number, schema in part.schemas.items()
        }
        channels = {
            number: writer.register_channel(c.topic, c.message_encoding, schemas[c.schema_id], c.metadata)
            for number, c in part.channels.items()
        }
        messages = [message for messages in part.messages.values() for message in messages]
        for message in sorted(messages, key=lambda message: message.log_time):
            number = channels[message.channel_id]
            writer.add_message(number, message.log_time, message.data, message.publish_time, message.sequence)
        writer.add_metadata(END, part.end or {"trouble": "the file was not finished"})
        writer.finish()
