interface ImportMeta {
  readonly env: {
    /** Whether this is the script of a static site, which asks no server. */
    readonly SITE: boolean;
  };
}
declare module "*.css";
