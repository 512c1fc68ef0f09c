from exported_bundle import actor, bundle, exported, golden, hostile_folder, reseal, task

__all__ = ["actor", "bundle", "exported", "golden", "hostile_folder", "reseal", "task"]
