//! How fast a hole list is read: 100,000 lines, plain.

use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lacuna_schedlog::{HoleList, HoleReader, Window, moments};

fn parse(c: &mut Criterion) {
    let mut text = String::from("node,idle_from,idle_until,censored\n");
    for i in 0..100_000_u32 {
        let from = 1_612_918_128 + i / 4 * 13;
        let until = from + 60 + i % 900;
        text += &format!("h{}n{:02},{from},{until},0\n", i % 256, i % 18);
    }
    let read = || HoleReader::new(Path::new("bench"), text.as_bytes()).and_then(HoleList::collect);
    let mut group = c.benchmark_group("holes");
    group.throughput(Throughput::Elements(100_000));
    group.bench_function("read", |b| b.iter(read));
    if let Ok(list) = read() {
        let window = Window::default();
        group.bench_function("moments", |b| {
            b.iter(|| moments(&list.records, None, window))
        });
    }
    group.finish();
}

criterion_group!(benches, parse);
criterion_main!(benches);
