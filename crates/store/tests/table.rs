//! Rows of a table on good and bad disks.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use kernels::stored::TableSource;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use store::{TableLayout, TableStore, Way};

const ROW: usize = 90;

fn layout(world: &World) -> TableLayout {
    let rows = (world.bytes.len() - 100) / ROW;
    TableLayout { path: world.path(), offset: 100, row_bytes: ROW, rows: rows as u64 }
}

fn check(table: &TableStore, world: &World, rows: &[u64]) {
    let mut found = vec![1, 2, 3];
    table.rows(rows, &mut found).unwrap();
    let want: Vec<u8> = rows
        .iter()
        .flat_map(|&row| world.bytes[100 + row as usize * ROW..][..ROW].to_vec())
        .collect();
    assert!(found == want, "rows {rows:?}");
}

#[test]
fn rows_are_the_file_s_in_the_order_asked_for() {
    let world = World::new(3, 8);
    for way in [Way::Direct, Way::Cached] {
        let layout = layout(&world);
        let table = TableStore::new(&layout, world.disk(way), (0, 4)).unwrap();
        check(&table, &world, &[]);
        check(&table, &world, &[0, layout.rows - 1, 5, 5, 0]);
        assert_eq!(table.rows_read(), 3);
        table.expect(&[7, 8, u64::MAX]);
        check(&table, &world, &[8, 7, 5]);
        assert_eq!(table.rows_read(), 5);
        // More than are kept, over and over.
        for first in 0..200 {
            let rows: Vec<u64> = (0..100).map(|i| (first * 37 + i * 11) % layout.rows).collect();
            check(&table, &world, &rows);
        }
    }
}

#[test]
fn a_row_that_fails_is_read_again_when_asked_again() {
    let world = World::new(3, 8);
    let faults = Arc::new(Faults::new());
    let table = TableStore::new(&layout(&world), world.faulty_disk(&faults), (1 << 20, 3)).unwrap();
    faults.fail.store(true, SeqCst);
    table.expect(&[1, 2]);
    let mut out = Vec::new();
    assert!(table.rows(&[1, 2, 3], &mut out).is_err());
    faults.fail.store(false, SeqCst);
    check(&table, &world, &[3, 2, 1]);
    faults.short.store(true, SeqCst);
    check(&table, &world, &[10, 20, 30, 45, 46, 47]);
    faults.changed.store(true, SeqCst);
    check(&table, &world, &[10, 20]);
    let error = table.rows(&[11], &mut out).unwrap_err().to_string();
    assert!(error.contains("was changed"), "{error}");
}

#[test]
fn rows_beyond_the_table_are_refused() {
    let world = World::new(1, 2);
    let table = TableStore::new(&layout(&world), world.disk(Way::Cached), (0, 1)).unwrap();
    let mut out = Vec::new();
    assert!(table.rows(&[layout(&world).rows], &mut out).is_err());
    let nowhere = TableLayout { rows: u64::MAX, ..layout(&world) };
    assert!(TableStore::new(&nowhere, world.disk(Way::Cached), (0, 1)).is_err());
}

#[test]
fn rows_that_nobody_comes_for_take_no_more_room_than_others() {
    let world = World::new(3, 8);
    let faults = Arc::new(Faults::new());
    let layout = layout(&world);
    let table = TableStore::new(&layout, world.faulty_disk(&faults), (0, 3)).unwrap();
    for row in 0..500 {
        table.expect(&[row]);
    }
    while table.rows_read() < 500 {
        std::thread::yield_now();
    }
    table.expect(&[]);
    assert_eq!(table.held(), 64);
    check(&table, &world, &(0..500).collect::<Vec<_>>());
    assert_eq!(table.held(), 64);
    // An error does not keep more either.
    faults.fail.store(true, SeqCst);
    assert!(table.rows(&[0, 1, 499, layout.rows - 1], &mut Vec::new()).is_err());
    table.expect(&[]);
    assert!(table.held() <= 64);
}
