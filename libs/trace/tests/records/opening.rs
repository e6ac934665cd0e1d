//! Files of any compression and content.

use std::io::Write;
use std::path::{Path, PathBuf};

use lacuna_skip::{data, or_skip};
use lacuna_trace::{Format, JobRecord, Log, ReadError, Reading};

use crate::logs::text;

fn swf(jobs: u32) -> Vec<u8> {
    let mut log = String::from("; UnixStartTime: 0\n");
    for job in 1..=jobs {
        let (submit, run) = (job * 13, job % 977 * 7);
        log += &format!("{job} {submit} 5 {run} 4 -1 -1 4 3600 -1 1 1 1 -1 1 -1 -1 -1\n");
    }
    log.into_bytes()
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(plain).unwrap();
    packer.finish().unwrap()
}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn count(path: &Path) -> Result<u64, ReadError> {
    let Log::Jobs(mut log) = Log::open(path, &Reading::default())? else {
        panic!("jobs");
    };
    let mut record = JobRecord::default();
    while log.read(&mut record)? {}
    assert_eq!(log.damage().lines, 0);
    Ok(log.lines())
}

#[test]
fn packed_logs_are_recognised_by_their_first_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let plain = swf(20_000);
    let zstd = zstd::encode_all(plain.as_slice(), 3).unwrap();
    let mut skippable = vec![0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
    skippable.extend_from_slice(&zstd);
    let (one, two) = plain.split_at(plain.len() / 3);
    for (name, bytes) in [
        ("plain.gz", plain.clone()),
        ("gzip", gzip(&plain)),
        ("two-members", [gzip(one), gzip(two)].concat()),
        ("zstd", zstd.clone()),
        ("behind-a-skippable-frame", skippable),
        (
            "two-frames",
            [
                zstd::encode_all(one, 1).unwrap(),
                zstd::encode_all(two, 19).unwrap(),
            ]
            .concat(),
        ),
    ] {
        assert_eq!(
            count(&put(folder.path(), name, &bytes)).unwrap(),
            20_001,
            "{name}"
        );
    }
}

#[test]
fn a_packed_log_that_is_cut_anywhere_is_reported_as_cut_short() {
    let folder = tempfile::tempdir().unwrap();
    let plain = swf(20_000);
    for (name, whole) in [
        ("cut.gz", gzip(&plain)),
        ("cut.zst", zstd::encode_all(plain.as_slice(), 3).unwrap()),
    ] {
        for kept in [
            whole.len() - 1,
            whole.len() - 9,
            whole.len() / 2,
            whole.len() / 10,
        ] {
            let path = put(folder.path(), name, &whole[..kept]);
            let error = count(&path).unwrap_err();
            assert!(
                matches!(error, ReadError::Truncated { .. }),
                "{name} {kept}: {error}"
            );
            let words = error.to_string();
            assert!(
                words.contains("the compressed file is cut short after line"),
                "{words}"
            );
        }
    }
}

#[test]
fn a_damaged_packed_log_is_no_shorter_log() {
    let folder = tempfile::tempdir().unwrap();
    let plain = swf(20_000);
    let mut gz = gzip(&plain);
    let middle = gz.len() / 2;
    gz[middle] ^= 0x10;
    let error = count(&put(folder.path(), "damaged.gz", &gz)).unwrap_err();
    let has_remedy = |error: &ReadError| {
        let words = error.to_string();
        words.contains("the compressed file is damaged after line ")
            && words.ends_with(": copy or download it again")
    };
    assert!(has_remedy(&error), "{error}");
    let behind = [gzip(&plain), b"what is no gzip".to_vec()].concat();
    let error = count(&put(folder.path(), "more.gz", &behind)).unwrap_err();
    assert!(has_remedy(&error), "{error}");
    let mut packer = zstd::Encoder::new(Vec::new(), 3).unwrap();
    packer.include_checksum(true).unwrap();
    packer.write_all(&plain).unwrap();
    let mut zst = packer.finish().unwrap();
    let middle = zst.len() / 2;
    zst[middle] ^= 0x10;
    let error = count(&put(folder.path(), "damaged.zst", &zst)).unwrap_err();
    assert!(has_remedy(&error), "{error}");
}

#[test]
fn an_unsupported_packed_format_names_its_tool() {
    let folder = tempfile::tempdir().unwrap();
    for (bytes, tool) in [
        (&b"BZh91AY&SY"[..], "unpack it with bunzip2 first"),
        (b"\xfd7zXZ\0\0\x04", "unpack it with unxz first"),
        (b"PK\x03\x04\x14\0", "unpack it with unzip first"),
    ] {
        let error = count(&put(folder.path(), "log", bytes)).unwrap_err();
        assert!(matches!(error, ReadError::Open { .. }), "{error}");
        assert!(error.to_string().ends_with(tool), "{error}");
    }
}

#[test]
fn formats_are_recognised_by_their_first_lines() {
    let job = "1 0 10 100 16 -1 -1 16 3600 -1 1 7 1 -1 2 -1 -1 -1\n";
    let comments = "; Queue: 1 a\n".repeat(500);
    for (head, format) in [
        (job.to_owned(), Some(Format::Swf)),
        (format!("{comments}{job}"), Some(Format::Swf)),
        ("; MaxNodes: 5\n".to_owned(), Some(Format::Swf)),
        ("; a poem:\n; of two lines\n".to_owned(), None),
        ("1 2 3\n".to_owned(), None),
        ("JobID|Start|End|NNodes\n".to_owned(), Some(Format::Sacct)),
        (
            "1|2022-01-01T00:00:10|2022-01-01T00:00:40|4\n".to_owned(),
            Some(Format::Sacct),
        ),
        (
            "node,idle_from,idle_until,censored\n".to_owned(),
            Some(Format::Holes),
        ),
        ("time,node,state\n".to_owned(), Some(Format::NodeStates)),
        ("Dear diary,\nnothing happened\n".to_owned(), None),
        ("\0\0\0\0\n".to_owned(), None),
    ] {
        assert_eq!(Format::detect(head.as_bytes()), format, "{head}");
    }
    let unknown = text("Dear diary,\n", &Reading::default())
        .err()
        .unwrap()
        .to_string();
    assert!(unknown.contains("name it with --format ("), "{unknown}");
    for format in Format::ALL {
        assert!(unknown.contains(format.name()), "{format}: {unknown}");
    }
    let path = Path::new("log");
    let wide: Vec<u8> = "\u{feff}JobID|Start\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let wide = Log::from_stream(
        path,
        Box::new(std::io::Cursor::new(wide)),
        &Reading::default(),
    );
    let wide = wide.err().unwrap().to_string();
    assert!(wide.contains("convert it with iconv"), "{wide}");
    let empty = text(" \n\n", &Reading::default())
        .err()
        .unwrap()
        .to_string();
    assert!(empty.contains("the file is empty"), "{empty}");
}

#[test]
fn every_sample_is_recognised_by_its_first_lines() {
    for (name, format) in [
        ("theta-2022/theta_2022.swf.gz", Format::Swf),
        ("summit-2021-02/holes.csv.gz", Format::Holes),
        ("samples/slurm-22.05/sacct_parsable2_all.txt", Format::Sacct),
        ("samples/slurm-22.05/sacct_parsable2_D_X.txt", Format::Sacct),
        ("samples/slurm-22.05/jobcomp_filetxt.txt", Format::Jobcomp),
        ("samples/slurm-22.05/slurmctld.log", Format::Slurmctld),
        ("samples/pbs/openpbs-accounting.log.gz", Format::Pbs),
        ("samples/lsf/lsb.acct", Format::LsbAcct),
        ("samples/lsf/lsb.events", Format::LsbEvents),
    ] {
        let path = or_skip!(data(name));
        let log = Log::open(&path, &Reading::default()).unwrap();
        assert_eq!(log.format(), format, "{name}");
    }
}
