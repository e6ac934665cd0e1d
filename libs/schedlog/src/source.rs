//! Files, plain or compressed, as one kind of stream.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::ReadError;

/// A buffered stream of plain bytes.
pub type Source = Box<dyn BufRead + Send>;

/// The first bytes of every gzip file (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Opens a file and, if its first bytes say gzip, unpacks it on the fly. The name of the file
/// does not matter.
///
/// # Errors
/// [`ReadError::Open`].
pub fn open(path: &Path) -> Result<Source, ReadError> {
    File::open(path)
        .and_then(|file| {
            if file.metadata()?.is_dir() {
                return Err(std::io::ErrorKind::IsADirectory.into());
            }
            unpacked(file)
        })
        .map_err(|source| ReadError::Open {
            path: path.to_owned(),
            source,
        })
}

/// Unpacks a stream if its first bytes say gzip.
///
/// # Errors
/// When nothing can be read from it.
pub(crate) fn unpacked(stream: impl Read + Send + 'static) -> std::io::Result<Source> {
    let mut stream = BufReader::with_capacity(64 * 1024, stream);
    let packed = stream.fill_buf()?.starts_with(&GZIP);
    Ok(if packed {
        let plain = MultiGzDecoder::new(stream);
        Box::new(BufReader::with_capacity(64 * 1024, plain))
    } else {
        Box::new(stream)
    })
}
