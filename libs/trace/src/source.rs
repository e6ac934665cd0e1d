//! Plain and compressed files as one kind of stream.

use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::ReadError;

/// A buffered stream of plain bytes.
pub type Source = Box<dyn BufRead + Send>;

/// The first bytes of every gzip file (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The first bytes of every zstd frame (RFC 8878).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Largest window of zstd, as a power of 2: that of `zstd --long=31`.
const WINDOW_LOG: u32 = 31;

/// Formats that are not unpacked here: first bytes, name, and the tool that unpacks them.
const OTHERS: [(&[u8], &str, &str); 4] = [
    (b"BZh", "bzip2", "bunzip2"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz", "unxz"),
    (b"PK\x03\x04", "zip", "unzip"),
    (&[0x1f, 0x9d], "compress", "uncompress"),
];

/// Opens a file, and unpacks it on the fly if its first bytes are those of gzip or zstd. The name
/// of the file does not matter.
///
/// # Errors
/// [`ReadError::Open`] if the file cannot be opened or unpacked.
pub fn open(path: &Path) -> Result<Source, ReadError> {
    File::open(path)
        .and_then(|file| {
            if file.metadata()?.is_dir() {
                return Err(ErrorKind::IsADirectory.into());
            }
            unpacked(file)
        })
        .map_err(|source| ReadError::Open {
            path: path.to_owned(),
            source,
        })
}

/// Unpacks a stream if its first bytes are those of gzip or zstd.
///
/// # Errors
/// If the stream cannot be read, or if its first bytes are those of another packed format.
pub(crate) fn unpacked(stream: impl Read + Send + 'static) -> std::io::Result<Source> {
    let mut stream = BufReader::with_capacity(64 * 1024, stream);
    let head = stream.fill_buf()?;
    if head.starts_with(&GZIP) {
        let plain = MultiGzDecoder::new(stream);
        return Ok(Box::new(BufReader::with_capacity(64 * 1024, plain)));
    }
    if head.starts_with(&ZSTD) || is_skippable(head) {
        let mut plain = zstd::stream::read::Decoder::with_buffer(stream)?;
        plain.window_log_max(WINDOW_LOG)?;
        return Ok(Box::new(BufReader::with_capacity(64 * 1024, plain)));
    }
    if let Some((_, name, tool)) = OTHERS.iter().find(|(magic, ..)| head.starts_with(magic)) {
        let remedy = format!("{name} is not unpacked here: unpack it with {tool} first");
        return Err(Error::new(ErrorKind::Unsupported, remedy));
    }
    Ok(Box::new(stream))
}

/// Whether this is an empty zstd frame, with which parallel compressors begin.
fn is_skippable(head: &[u8]) -> bool {
    matches!(head, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}
